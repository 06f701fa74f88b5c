"""From the tokens of one value to a `Value`, with a message where it is written as the language does not have it."""

from __future__ import annotations

import math
import re

from torchspec.core.diagnostics import Diagnostic, Span
from torchspec.syntax.ast import Value
from torchspec.syntax.lexical import Token

MAX_DIGITS = 40
_UNITS = r"%|[num]s|s|min|h|B|[kMGT]B|[KMGT]iB|pp|x|dB|ulp|[A-Za-z]+/s"
_NUMBER_UNIT = re.compile(rf"(-?[0-9]+(?:\.[0-9]+)?)({_UNITS})")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|.)")
_SIMPLE = {'"': '"', "\\": "\\", "n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_RELATIONS = {"≤": "<=", "≦": "<=", "=<": "<=", "≥": ">=", "≧": ">=", "=>": ">=", "<": "<=", ">": ">="}

Made = tuple[Value | None, Diagnostic | None, bool]


def make_value(parts: list[Token], file: str) -> Made:
    """The value (None where it says nothing), the mistake in it, and whether the value is certain all the same."""
    token = parts[0]
    span = token.span(file)
    kind, text = token.type, token.text
    if kind == "NAME":
        return Value("name", text, span), None, True
    if kind == "NUMBER":
        return _number(text, parts, span, file)
    if kind == "STRING":
        return _string(text[1:-1], span)
    if kind == "DATE":
        return _date(text, span)
    if kind == "PARAM":
        return Value("param", text[1:], span), None, True
    if kind == "RELATION":
        return Value("relation", text, span), None, True
    return _mistake(kind, text, span)


def _number(text: str, parts: list[Token], span: Span, file: str) -> Made:
    unit = None
    if len(parts) == 2:
        unit = parts[1].text
        end = parts[1].span(file)
        span = Span(file, span.line, span.column, end.end_line, end.end_column)
    if sum(c.isdigit() for c in text) > MAX_DIGITS:
        problem = Diagnostic("TS113", f"a number of more than {MAX_DIGITS} digits", span)
        return None, problem, False
    number: int | float
    if "." in text or "e" in text or "E" in text:
        number = float(text)
        if math.isinf(number):
            hint = "a limit is a number that some measurement would cross"
            return None, Diagnostic("TS113", f"{text} is too large to be a number", span, hint=hint), False
        if number == 0 and text.lower().split("e")[0].strip("-0."):
            return None, Diagnostic("TS113", f"{text} is too small to be told from 0", span), False
    else:
        number = int(text)
    return Value("number", text, span, number, unit), None, True


def _string(body: str, span: Span) -> Made:
    bad: list[str] = []

    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "uUx" and len(code) > 1:
            point = int(code[1:], 16)
            if point <= 0x10FFFF and not 0xD800 <= point <= 0xDFFF:
                return chr(point)
        elif code in _SIMPLE:
            return _SIMPLE[code]
        bad.append(match[0])
        return match[0]

    text = _ESCAPE.sub(one, body) if "\\" in body else body
    value = Value("string", text, span)
    if not bad:
        return value, None, True
    hint = 'a string knows \\" \\\\ \\n \\t \\r \\0 \\xHH \\uHHHH \\UHHHHHHHH; write \\\\ for a backslash'
    return value, Diagnostic("TS110", f"`{bad[0]}` means nothing in a string", span, hint=hint), True


def _date(text: str, span: Span) -> Made:
    year, month, day = (int(part) for part in text.split("-"))
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    lengths = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    if year >= 1 and 1 <= month <= 12 and 1 <= day <= lengths[month - 1]:
        return Value("date", text, span), None, True
    problem = Diagnostic("TS114", f"there is no {text}", span, hint="dates are year-month-day")
    return None, problem, False


def _mistake(kind: str, text: str, span: Span) -> Made:
    if kind == "UNCLOSED":
        shown = text[1:].rstrip("{ ").rstrip("\\")
        hint = 'it ends with `"` on the same line; a line break in it is written `\\n`'
        problem = Diagnostic("TS109", "this string is not closed", span, hint=hint)
        return Value("string", shown, span), problem, False
    if kind == "QUOTED":
        quotes = "‘’‚‛“”„‟«»'`′″"
        problem = Diagnostic("TS106", f"`{text[0]}` is not the quote of a string", span, hint='write `"…"`')
        return Value("string", text.strip(quotes), span), problem, True
    if kind == "VERSION":
        problem = Diagnostic("TS108", "a version is text, not a number", span, hint=f'write "{text}"')
        return Value("string", text, span), problem, True
    if kind == "GROUPED":
        plain = text.replace(",", "")
        problem = Diagnostic(
            "TS111",
            "a number has no commas inside",
            span,
            hint=f"write {plain}, or a list with spaces: {', '.join(text.split(','))}",
        )
        if len(plain) > MAX_DIGITS:
            return None, problem, False
        return Value("number", plain, span, int(plain)), problem, True
    if kind == "GLUED":
        return _glued(text, span)
    if kind == "UNQUOTED":
        problem = Diagnostic("TS116", f"`{_short(text)}` is not a name", span, hint=_unquoted_hint(text))
        return Value("string", text, span), problem, False
    if kind == "SIGN":
        meant = _RELATIONS.get(text)
        if meant is not None:
            problem = Diagnostic("TS107", f"`{text}` is not a relation", span, hint=f"write `{meant}`")
            return Value("relation", meant, span), problem, True
        if text in ("->", "-->", "→"):
            return None, Diagnostic("TS107", f"no `{text}` belongs here", span, hint="a range is written `to`"), False
        hint = 'a value follows its word with a space: `owner "search"`; a limit begins with `<=` or `>=`'
        return None, Diagnostic("TS107", f"no `{_short(text)}` belongs here", span, hint=hint), True
    return None, Diagnostic("TS115", f"`{_short(text)}` does not belong here", span, hint=_unknown_hint(text)), False


def _glued(text: str, span: Span) -> Made:
    match = _NUMBER_UNIT.fullmatch(text)
    if match and len(text) <= MAX_DIGITS:
        problem = Diagnostic("TS123", "a space stands before a unit", span, hint=f"write `{match[1]} {match[2]}`")
        number = float(match[1]) if "." in match[1] else int(match[1])
        return Value("number", match[1], span, number, match[2]), problem, True
    hint = f'quote what is text: "{_short(text)}"'
    if re.fullmatch(r"[0-9]{1,4}[/.][0-9]{1,2}[/.][0-9]{1,4}", text):
        hint = "a date is year-month-day: 2026-12-31"
    elif re.fullmatch(r"[0-9]+(x[0-9]+)+", text):
        hint = f"one size a line; several values of one size are a list: {', '.join(text.split('x'))}"
    problem = Diagnostic("TS116", f"`{_short(text)}` is neither a number nor a name", span, hint=hint)
    return Value("string", text, span), problem, False


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


def _unquoted_hint(text: str) -> str:
    if re.fullmatch(r"[A-Za-z_]+/[A-Za-z_]+", text):
        return f'quote it: "{_short(text)}"; what is counted is written `{_short(text.replace("/", " per "))}`'
    return f'quote it: "{_short(text)}"'


def _unknown_hint(text: str) -> str:
    if text.strip("0123456789\uff10\uff11\uff12\uff13\uff14\uff15\uff16\uff17\uff18\uff19") == "" or text[0].isdigit():
        return "digits are 0 to 9"
    if text[0].isspace():
        return "this looks like a space and is none: write a space"
    if text[0] in "μµ":
        return "write `us` for microseconds"
    if text[0] in "−–—":
        return "write `-`"
    if not text.isascii():
        return 'names are ASCII; other text stands in quotes: "…"'
    if text == ";":
        return "a line holds one statement, and ends by itself"
    if text in "[]()":
        return "a list has no brackets: values joined by `, `"
    if text == "/":
        return "a comment begins with `#`"
    if text == "-":
        return "a range is written `to`; a negative number has no space after its `-`"
    return 'text with other characters stands in quotes: "…"'
