"""Reads one canary file strictly, with the line of each sample. Must not know the plan."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from torchspec.core.canon import sha256_hex
from torchspec.core.diagnostics import Diagnostic, Span
from torchspec.core.files import strict_json
from torchspec.ledger.errors import reason as os_reason
from torchspec.model.canary import CanaryFile, CanarySample

MOST_BYTES = 64 * 2**20
LIST = '"samples"'


@dataclass(frozen=True, slots=True)
class File:
    """One canary file: its path from the spec's folder, its bytes and digest, what it says, each sample's line."""

    path: str
    data: bytes
    sha256: str
    told: CanaryFile
    lines: tuple[int, ...]

    def at(self, index: int) -> Span:
        line = self.lines[index] if index < len(self.lines) else 1
        return Span(self.path, line, 1, line, 2)


def whole(name: str) -> Span:
    return Span(name, 1, 1, 1, 2)


def read(path: Path, name: str, folder: Path) -> File | Diagnostic:
    """One file as it is told, or why it is none."""
    hint = "`torchspec schema canary` prints what a canary file holds"
    try:
        if not path.resolve().is_relative_to(folder.resolve()):
            return Diagnostic(
                "TS742", f"`{name}` leads out of the folder of the spec", hint="copy the file itself there"
            )
        if path.stat().st_size > MOST_BYTES:
            message = f"`{name}` is larger than {MOST_BYTES // 2**20} MiB"
            return Diagnostic("TS742", message, whole(name), hint="give one figure for each group and window")
        data = path.read_bytes()
    except OSError as error:
        return Diagnostic(
            "TS742", f"`{name}` cannot be read: {os_reason(error)}", hint="make it readable, or remove it"
        )
    if not data.strip():
        return Diagnostic("TS742", f"`{name}` is empty", whole(name), hint=hint)
    try:
        value = strict_json(data)
        told = msgspec.convert(value, CanaryFile)
    except json.JSONDecodeError as error:
        place = Span(name, error.lineno, error.colno, error.lineno, error.colno + 1)
        return Diagnostic("TS742", f"`{name}` is not JSON: {error.msg}", place, hint=hint)
    except msgspec.ValidationError as error:
        return Diagnostic("TS742", f"`{name}` is no canary file: {error}", _place(data, name, str(error)), hint=hint)
    except ValueError as error:  # NaN, a key twice, not UTF-8
        why = f"`{name}` is no canary file: {error}"
        return Diagnostic(
            "TS742", why, _odd(data, name), hint="a figure that is not a number is no figure; leave it out"
        )
    strange = next(_strange(value), None)
    if strange is not None:
        message = f"`{name}` is no canary file: nothing is called `{strange[1]}` there"
        return Diagnostic("TS742", message, _place(data, name, strange[0]), hint=hint)
    return File(name, data, sha256_hex(data), told, _lines(data))


def _strange(value: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(where, key) of what the format does not know: a slip in an optional name must not go unseen."""
    known = set(CanaryFile.__dataclass_fields__)
    yield from (("$", key) for key in value if key not in known)
    known = set(CanarySample.__dataclass_fields__)
    for index, sample in enumerate(value["samples"]):
        yield from ((f"$.samples[{index}]", key) for key in sample if key not in known)


def _lines(data: bytes) -> tuple[int, ...]:
    """The line on which each sample begins; shorter, or empty, where that cannot be told."""
    text = data.decode("utf-8")
    start = text.find("[", text.find(LIST))
    if start < 0:
        return ()
    decoder, at, line, counted = json.JSONDecoder(), start + 1, 1, 0
    lines: list[int] = []
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if at >= len(text) or text[at] != "{":
            return tuple(lines)
        line += text.count("\n", counted, at)
        counted = at
        lines.append(line)
        try:
            _, at = decoder.raw_decode(text, at)
        except ValueError:
            return tuple(lines)


def _place(data: bytes, name: str, path: str) -> Span:
    """The place that a JSON path names (`$.samples[3].value`): the sample's line, else the file's first."""
    _, found, rest = path.partition("$.samples[")
    number = rest.partition("]")[0]
    if not found or not number.isdigit():
        return whole(name)
    lines = _lines(data)
    line = lines[int(number)] if int(number) < len(lines) else 1
    return Span(name, line, 1, line, 2)


def _odd(data: bytes, name: str) -> Span:
    """The line of the first word that JSON does not have."""
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        column = next((at for word in ("NaN", "Infinity") if (at := line.find(word)) >= 0), -1)
        if column >= 0:
            return Span(name, number, column + 1, number, column + 2)
    return whole(name)
