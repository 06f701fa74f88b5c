"""What a syntax error means: the label that the samples of `grammar/syntax_errors.json` gave its place, in words."""

from __future__ import annotations

from torchspec.core.diagnostics import Diagnostic
from torchspec.syntax._tables import LABELS
from torchspec.syntax.lexical import Token

#: label -> (code, message, hint); `{}` stands for the token's text.
_WORDS: dict[str, tuple[str, str, str | None]] = {
    "line begins": (
        "TS121",
        "a line begins with a word, not with `{}`",
        "one line is one statement: a word, then its values",
    ),
    "comma first": ("TS112", "a comma joins two values; there is none before this one", "remove the comma"),
    "comma last": ("TS112", "a value is missing after the comma", "a list stands on one line"),
    "comma twice": ("TS112", "two commas with nothing between", "remove one"),
    "unit alone": ("TS123", "`{}` is a unit, and a number comes before a unit", "unit names cannot be names"),
    "unit name": ("TS123", "`{}` is the name of a unit and cannot be a word", "choose another name"),
    "brace": ("TS119", "`{{` ends the line of a word", "begin the line with a word"),
}
#: For places that no sample reaches.
_ELSE = {"UNIT": "unit alone", "LBRACE": "brace"}


def syntax_error(state: int, token: Token, file: str) -> Diagnostic:
    """The diagnostic for a token that cannot stand where it does."""
    label = LABELS.get((state, token.type)) or _ELSE.get(token.type, "line begins")
    code, message, hint = _WORDS[label]
    hint = _instead(token) or hint
    shown = token.text if len(token.text) <= 40 else token.text[:39] + "…"
    return Diagnostic(code, message.format(shown.strip() or "the end of the line"), token.span(file), hint=hint)


def hyphenless(token: Token) -> str | None:
    """The name that a word with hyphens was meant to be, None where it would be none."""
    name = token.text.replace("-", "_")
    return name if token.type == "UNQUOTED" and name.replace(".", "_").isidentifier() and name != token.text else None


def _instead(token: Token) -> str | None:
    """What was probably meant by text that begins a line and is no word."""
    if token.text in ("/", "-->"):
        return "a comment begins with `#`"
    if token.text in ("-", "*"):
        return "a list stands on one line, joined by `, `, and one line is one statement"
    name = hyphenless(token)
    return f"a name has no hyphen: did you mean `{name}`?" if name else None
