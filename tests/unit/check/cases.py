"""Reads the corpus of `tests/cases/check`: faulty specs with the code and the place of each mistake marked in them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

CORPUS = Path(__file__).resolve().parents[2] / "cases" / "check"
_FENCE = re.compile(r"```(\w+)(?: (\S+))?\n(.*?)```", re.DOTALL)
_MARK = re.compile(r"#(\s*)\^ (TS\d{3})(?: (\d+))?$")
_BYTES = re.compile(r"<(TAB|CR|U\+[0-9A-F]{4,6}|0x[0-9A-F]{2})>")

Place = tuple[str, str, int, int]  # code, file, line, column; line 0: no place


@dataclass(slots=True)
class Case:
    name: str
    files: dict[str, bytes] = field(default_factory=dict)
    expected: list[Place] = field(default_factory=list)
    params: dict[str, str] = field(default_factory=dict)


def _raw(text: str) -> bytes:
    """Text with its escapes as bytes."""
    out = b""
    last = 0
    for match in _BYTES.finditer(text):
        out += text[last : match.start()].encode()
        code = match[1]
        if code.startswith("0x"):
            out += bytes([int(code, 16)])
        else:
            out += {"TAB": "\t", "CR": "\r"}.get(code, chr(int(code[2:] or "0", 16)) if code[0] == "U" else "").encode()
        last = match.end()
    return out + text[last:].encode()


def _take_marks(text: str, file: str, expected: list[Place]) -> str:
    kept: list[str] = []
    for line in text.split("\n"):
        mark = _MARK.fullmatch(line)
        if mark:
            before = kept[-1]
            column = int(mark[3]) if mark[3] else _shown_column(before, line.index("^"))
            expected.append((mark[2], file, len(kept), column))
        elif line.startswith("#>"):
            expected.append((line[2:7], file, len(kept), len(kept[-1]) + 1))
        elif line.startswith("#!"):
            place = line[7:].strip()
            where = [int(part) for part in place.split(":")] if place else [0, 0]
            expected.append((line[2:7], file, where[0], where[1]))
        elif not line.startswith("# TS"):
            kept.append(line)
    return "\n".join(kept)


def _shown_column(line: str, position: int) -> int:
    """The column of the character that stands at `position` of the line as it is shown in the corpus."""
    return len(_BYTES.sub("?", line[:position])) + 1


def load(name: str) -> list[Case]:
    sound = (CORPUS / "sound.tspec").read_text(encoding="utf-8")
    cases: list[Case] = []
    text = (CORPUS / name).read_text(encoding="utf-8")
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        title, _, where = heading.rpartition(" [")
        case = Case(f"{name.removesuffix('.md')}: {title}")
        case.params = dict(re.findall(r"^set: (\w+)=(.*)$", body, re.MULTILINE))
        case.files["code.py"] = b"def build():\n    return None\n"
        for position, (_, path, block) in enumerate(_FENCE.findall(body)):
            if position:
                case.files[path] = _raw(_take_marks(block, path, case.expected))
                continue
            if where != "file]":
                line = next(p for p in sound.split("\n") if f"[[{where[:-1]}]]" in p)
                block = sound.replace(line, block.rstrip("\n"))
                block = "\n".join(p for p in block.split("\n") if not re.fullmatch(r"\s*\[\[\w+\]\]", p))
            case.files["spec.tspec"] = _raw(_take_marks(block, "spec.tspec", case.expected))
        cases.append(case)
    return cases


def everything() -> list[Case]:
    return [case for path in sorted(CORPUS.glob("*.md")) if path.name != "README.md" for case in load(path.name)]
