"""The canonical form of a spec: two spaces a block, fixed columns, one blank line at most, every comment kept.

A line's form depends on that line alone (and on how deep it stands), so that editing one never re-aligns another in a
diff. Works on tokens, so words that nobody knows are formatted like any other. Must not change what a spec says.
"""

from __future__ import annotations

from itertools import pairwise

from torchspec.core.diagnostics import Result
from torchspec.syntax.lexical import Token, decode, tokens
from torchspec.syntax.parse import parse_text

#: Words that usually begin a named value: two spaces stand before them.
CLAUSES = frozenset(
    [
        "against", "at", "because", "beside", "by", "cache", "commit", "digest", "else", "extends", "from", "hardware",
        "in", "launcher", "may_differ", "on", "over", "path", "ranks", "repeats", "retrieved", "rows", "sees",
        "threads", "until", "wheels", "window", "within",
    ]
)  # fmt: skip
#: Words that begin a gate's limit, so that the word before them is a metric.
RELATIONS = frozenset(["growth", "drop", "increase", "decrease", "speedup", "identical", "holds"])
_INDENT = "  "
_WORD_WIDTH = 12
_METRIC_WIDTH = 24
_LIMIT_WIDTH = 18


def format_source(text: str, name: str) -> Result[str]:
    """`text` in canonical form. `value` is None where a mistake of form stands in the way."""
    clean, found = decode(text.encode("utf-8", "surrogatepass"), name)
    if not clean.strip() and not found:
        return Result("")
    if not clean:
        return Result(None, tuple(found))
    diagnostics = parse_text(clean, name, found).diagnostics
    if any(d.is_error for d in diagnostics):
        return Result(None, diagnostics)
    return Result(_canonical(list(tokens(clean))), diagnostics)


def _canonical(stream: list[Token]) -> str:
    out: list[str] = []
    line: list[Token] = []
    depth = 0
    blank = False
    for token in stream:
        if token.type not in ("NEWLINE", "$END"):
            line.append(token)
            continue
        if not line:
            blank = bool(out)
            continue
        closes = line[0].type == "RBRACE"
        if closes:
            depth -= 1
        if blank and not closes and not out[-1].split("#")[0].rstrip().endswith("{"):
            out.append("")
        blank = False
        out.append(_INDENT * depth + _line(line, depth))
        if any(t.type == "LBRACE" for t in line):
            depth += 1
        line = []
    return "".join(f"{text}\n" for text in out)


def _line(line: list[Token], depth: int) -> str:
    comment = line[-1].text.rstrip() if line[-1].type == "COMMENT" else None
    body = line[:-1] if comment is not None else line
    text = _body(body, depth)
    if comment is None:
        return text
    return f"{text}  {comment}" if text else comment


def _body(body: list[Token], depth: int) -> str:
    if not body:
        return ""
    opens = body[-1].type == "LBRACE"
    text = body[0].text
    metric = "." in text or (len(body) > 1 and (body[1].type == "RELATION" or body[1].text in RELATIONS))
    named = False  # whether the token before is a clause's own word
    limit_from: int | None = None  # where a gate's relation and limit begin
    for before, token in pairwise(body):
        clause = token.type == "NAME" and token.text in CLAUSES and before.type != "COMMA" and not (named or opens)
        if before is body[0] and token.type != "LBRACE":
            if depth and not opens:
                text = _padded(text, _METRIC_WIDTH if metric else _WORD_WIDTH)
                limit_from = len(text) if metric else None
            else:
                text += " "
        elif clause and limit_from is not None:
            text = text[:limit_from] + _padded(text[limit_from:], _LIMIT_WIDTH)
            limit_from = None
        elif clause:
            text += "  "
        elif token.type not in ("COMMA", "TIGHT_COMMA"):
            text += " "
        text += token.text
        named = clause
    return text


def _padded(text: str, width: int) -> str:
    """`text` filled up to `width`, two spaces at least."""
    return text.ljust(width) if len(text) <= width - 2 else text + "  "
