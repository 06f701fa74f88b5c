"""What the text of an operator's argument may say, as the harness reads it: word by word, and never evaluated.

Knows the words and not the operator: which arguments it takes, torch says.
"""

from __future__ import annotations

import re

_SHAPE = re.compile(r"[0-9]+(x[0-9]+)*")
_NAME = re.compile(r"[A-Za-z]\w*(\.[A-Za-z]\w*)*")
_DTYPE = re.compile(r"(float|int|uint|complex|bfloat)[0-9]*\w*|bool|half|double|long|short|cfloat|cdouble|chalf")
EXAMPLES = '"1x128256", "16x64 bfloat16 transposed", "8 int64 below 100", "values 8 16 int32", "1 2 1 2", "4x4, 4x4"'


def mistake(text: str) -> str | None:
    """Why the text of an argument cannot be read; None where it can."""
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) == 1:
        return _one(text.split())
    listed = parts[:-1] if not parts[-1] else parts
    for part in listed:
        if not _is_tensor(part.split()):
            return f"`{part}` is no tensor, and only tensors make a list"
        told = _one(part.split())
        if told is not None:
            return told
    return None


def _is_tensor(words: list[str]) -> bool:
    if words[:1] == ["values"]:
        return True
    if not words or not _SHAPE.fullmatch(words[0]):
        return False
    return "x" in words[0] or (len(words) > 1 and not _is_number(words[1]))


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _one(words: list[str]) -> str | None:
    if not words:
        return "it says nothing"
    if not _is_tensor(words):
        plain = all(_is_number(word) for word in words) or (len(words) == 1 and _NAME.fullmatch(words[0]))
        return None if plain else f"`{' '.join(words)}` is no tensor, number, name below torch or 'text'"
    pending = [word for word in words[1:] if not (words[0] == "values" and _is_number(word))]
    while pending:
        word = pending.pop(0)
        if word == "below" and words[0] != "values":
            if not pending or not pending[0].isdecimal():
                return "`below` is followed by a whole number"
            pending.pop(0)
        elif word not in ("transposed", "symmetric") and not _DTYPE.fullmatch(word):
            return f"an argument has no word `{word}`"
    return None
