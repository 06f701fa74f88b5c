"""Reads the main spec, its imports and the team's files, and puts parameters in the place of `$names`.

The only file of `check` that reads from disk. Must not look at what statements say, `use` and `param` apart.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from torchspec.check.bind import Bound, bind
from torchspec.check.spec import EntryDecl, FileText, ParamDecl, TeamFile, Text, WorkloadDecl
from torchspec.check.structure import Context
from torchspec.check.team import read
from torchspec.check.values import plain
from torchspec.check.words import WORDS
from torchspec.core.diagnostics import Label, Span
from torchspec.syntax.ast import Statement, Value
from torchspec.syntax.parse import parse_source

MAX_FILES = 100
VERSION = 1
#: What an imported file may hold; everything else belongs to the question of one spec.
IMPORTABLE = ("tspec", "use", "gates", "source", "param")
_ROWS = {row.word: row for row in WORDS["file"]}


@dataclass(slots=True)
class Loaded:
    """Every statement of the spec, imports where `use` stands, with parameters put in."""

    folder: Path
    statements: list[Statement] = field(default_factory=list)
    files: list[FileText] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)  # file name as in spans -> text
    params: list[ParamDecl] = field(default_factory=list)
    first: Span | None = None


def load(context: Context, path: Path, chosen: Mapping[str, str]) -> Loaded:
    """The spec at `path` with its imports; mistakes go to `context`. `chosen`: what `--set` said."""
    loader = _Loader(context, path)
    loader.read(path, str(path), path.name, None)
    made = loader.loaded
    values = _params(context, made, chosen)
    made.statements = [_filled(context, s, values) for s in made.statements if s.word not in ("param", "use")]
    return made


class _Loader:
    def __init__(self, context: Context, path: Path) -> None:
        self.context = context
        self.loaded = Loaded(path.parent)
        self._root = Path(os.path.realpath(path.parent))
        self._under_way: list[str] = []
        self._done: set[str] = set()

    def read(self, path: Path, name: str, relative: str, used: Value | None) -> None:
        data = self._bytes(path, name, used)
        if data is None:
            return
        self.loaded.files.append(FileText(relative, data))
        self.loaded.texts[name] = data.decode("utf-8", "replace").replace("\r\n", "\n")
        start = Span(name, 1, 1, 1, 2)
        if not data.strip():
            message = "the file is empty" if not data else "the file holds nothing but white space"
            self.context.say("TS102", message, start, "a spec begins with `tspec 1`; `torchspec init` writes one")
            return
        result = parse_source(data, name)
        self.context.found.extend(result.diagnostics)
        if result.value is None:
            return
        statements = result.value.statements
        if not statements:
            if not result.diagnostics:
                hint = "a spec begins with `tspec 1`; `torchspec init` writes one"
                self.context.say("TS102", "the file holds no statement", start, hint)
            return
        if used is None:
            self.loaded.first = statements[0].word_span
        self._version(statements[0], bool(result.diagnostics))
        resolved = os.path.realpath(path)
        self._under_way.append(resolved)
        self._done.add(resolved)
        seen: dict[str, Span] = {}
        for position, statement in enumerate(statements):
            if statement.word == "tspec" and position == 0:
                continue
            if used is not None and statement.word not in IMPORTABLE and statement.word in _ROWS:
                message = f"an imported file holds no `{statement.word}`"
                hint = "it may hold " + ", ".join(f"`{w}`" for w in IMPORTABLE[1:])
                self.context.say("TS223", message, statement.word_span, hint)
            elif statement.word == "use":
                self._use(path, statement, seen)
            else:
                self.loaded.statements.append(statement)
        self._under_way.pop()

    def _bytes(self, path: Path, name: str, used: Value | None) -> bytes | None:
        code, span = ("TS100", None) if used is None else ("TS220", used.span)
        try:
            with path.open("rb") as stream:
                return stream.read()
        except FileNotFoundError:
            self.context.say(code, f"there is no file {name}", span, "paths begin at the file that names them")
        except IsADirectoryError:
            self.context.say(code, f"{name} is a folder, not a file", span, "name a .tspec file in it")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            self.context.say(code, f"{name} cannot be read: {reason}", span)
        return None

    def _version(self, first: Statement, noisy: bool) -> None:
        if first.word != "tspec":
            if not noisy or first.word in _ROWS:
                message = "a spec begins with the version of its language"
                self.context.say("TS126", message, first.word_span, "write `tspec 1` as the first line")
            return
        bound = bind(first, _ROWS["tspec"], self.context.found)
        value = bound.one()
        if value is not None and value.number != VERSION:
            message = f"this torchspec knows version {VERSION} of the language, not {value.text}"
            self.context.say("TS127", message, value.span, f"write `tspec {VERSION}`, or use a newer torchspec")

    def _use(self, path: Path, statement: Statement, seen: dict[str, Span]) -> None:
        value = bind(statement, _ROWS["use"], self.context.found).one()
        if value is None:
            return
        text = value.text
        if text.startswith("/") or re.match(r"[A-Za-z]:|[a-z]+://", text) or "\\" in text or "\0" in text or not text:
            hint = 'for example: use "common/gates.tspec"'
            self.context.say("TS238", f'"{text}" is not a path that begins at this file', value.span, hint)
            return
        target = path.parent / text
        resolved = os.path.realpath(target)
        if resolved in self._under_way:
            self.context.say("TS221", f'"{text}" is being imported already: a circle', value.span, "remove one `use`")
            return
        if resolved in seen:
            label = (Label(seen[resolved], "first here"),)
            self.context.say("TS222", f'"{text}" is imported twice', value.span, "remove one", label)
            return
        seen[resolved] = value.span
        if resolved in self._done:  # by another file: its sets are known already
            return
        if len(self._done) >= MAX_FILES:
            self.context.say("TS220", f"more than {MAX_FILES} files are imported", value.span)
            return
        relative = Path(os.path.relpath(resolved, self._root)).as_posix()
        self.read(target, relative, relative, value)


def _params(context: Context, made: Loaded, chosen: Mapping[str, str]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for statement in made.statements:
        if statement.word != "param":
            continue
        bound = bind(statement, _ROWS["param"], context.found)
        name, default = bound.one(0), bound.one(1)
        if name is None or default is None:
            continue
        if name.text in values:
            first = next(p.name.span for p in made.params if p.name.text == name.text)
            label = (Label(first, "first here"),)
            context.say("TS219", f"there are two parameters `{name.text}`", name.span, "rename one", label)
            continue
        value = default
        if name.text in chosen:
            value = _chosen(context, name.text, chosen[name.text], default)
        values[name.text] = value
        reason = bound.one(name="because")
        because = None if reason is None else Text(reason.text, reason.span)
        made.params.append(ParamDecl(Text(name.text, name.span), plain(default), plain(value), because, statement.span))
    for name_set in chosen:
        if name_set not in values:
            known = ", ".join(values) or "this spec has none"
            message = f"--set {name_set}: the spec has no parameter `{name_set}`"
            context.say("TS232", message, None, f"parameters: {known}")
    return values


def _chosen(context: Context, name: str, text: str, default: Value) -> Value:
    """What `--set` said, in the shape of the default: a number stays a number, with the default's unit."""
    if default.kind != "number":
        return replace(default, text=text)
    match = re.fullmatch(r"(-?[0-9]{1,15}(\.[0-9]{1,15})?)\s*(\S*)", text.strip())
    unit = (match[3] or default.unit) if match else None
    if match is None or unit != default.unit or (isinstance(default.number, int) and match[2]):
        kind = "a whole number" if isinstance(default.number, int) else "a number"
        with_unit = f" in {default.unit}" if default.unit else ""
        message = f'--set {name}: "{text}" is not {kind}{with_unit}, as the default {default.written} is'
        context.say("TS313", message, None, f"for example: --set {name}={default.text}")
        return default
    number = float(match[1]) if match[2] or not isinstance(default.number, int) else int(match[1])
    return replace(default, text=match[1], number=number)


def _filled(context: Context, statement: Statement, values: dict[str, Value]) -> Statement:
    """The statement with every `$name` replaced; where there is none, the very same object."""
    changed = False
    broken = statement.broken
    groups: list[tuple[Value, ...]] = []
    for group in statement.arguments:
        if any(v.kind == "param" for v in group):
            changed = True
            kept: list[Value] = []
            for value in group:
                if value.kind != "param":
                    kept.append(value)
                elif value.text in values:
                    kept.append(replace(values[value.text], span=value.span))
                else:
                    context.unknown("TS218", "parameter", value.text, value.span, values, f"param {value.text} 512")
                    broken = True
            if kept:
                groups.append(tuple(kept))
        else:
            groups.append(group)
    block = statement.block
    if block:
        filled = tuple(_filled(context, s, values) for s in block)
        if any(a is not b for a, b in zip(filled, block, strict=True)):
            block, changed = filled, True
    if not changed:
        return statement
    return replace(statement, arguments=tuple(groups), block=block, broken=broken)


def team_file(context: Context, folder: Path, entry: EntryDecl) -> tuple[FileText, TeamFile] | None:
    """The file of an entry and what its text tells, its function looked for; None where there is a mistake."""
    path = folder / entry.path
    root = os.path.realpath(folder)
    if not os.path.realpath(path).startswith(os.path.join(root, "")):
        context.say("TS238", f'"{entry.path}" leads out of the folder of the spec', entry.span)
        return None
    try:
        data = path.read_bytes()
        text = data.decode("utf-8")
    except FileNotFoundError:
        hint = f"it is looked for beside the spec, at {Path(os.path.normpath(path)).as_posix()}"
        context.say("TS227", f"there is no file {entry.path}", entry.span, hint)
        return None
    except UnicodeDecodeError:
        context.say("TS227", f"{entry.path} is not UTF-8", entry.span)
        return None
    except (OSError, ValueError) as error:
        context.say("TS227", f"{entry.path} cannot be read: {getattr(error, 'strerror', None) or error}", entry.span)
        return None
    seen, name = read(data), re.escape(entry.function)
    defined = rf"^(?:async\s+)?def\s+{name}\b|^class\s+{name}\b|^{name}\s*[:=]|^from\s.*\b{name}\b|^\s+{name},?\s*$"
    there = bool(re.search(defined, text, re.MULTILINE)) if seen.names is None else entry.function in seen.names
    if not there:
        functions = re.findall(r"^def\s+([A-Za-z_]\w*)", text, re.MULTILINE)
        context.unknown("TS228", f"function in {entry.path} named", entry.function, entry.span, functions)
        return None
    return FileText(entry.path, data), seen


#: A slice up to this size is held against its digest by `check`; a larger one only where it is read.
MOST_DATA = 64 << 20


def data_slice(context: Context, folder: Path, workload: WorkloadDecl) -> None:
    """Holds the data slice of a workload against its digest, where it lies beside the spec; TS244 where it is another.

    The slice itself stays where it is: plan, harness and memo carry its digest, never its text.
    """
    told = workload.options.get("data")
    path = str(told["file"]) if isinstance(told, dict) else ""
    root = os.path.realpath(folder)
    if not path or not os.path.realpath(folder / path).startswith(os.path.join(root, "")):
        return
    try:
        if (folder / path).stat().st_size > MOST_DATA:
            return
        file = FileText(path, (folder / path).read_bytes())
    except (OSError, ValueError):
        return
    wanted = str(told.get("digest") or "").removeprefix("sha256:") if isinstance(told, dict) else ""
    if not file.sha256.startswith(wanted):
        hint = f'if this is the slice that is meant, write: digest "sha256:{file.sha256[:16]}"'
        context.say("TS244", f"{path} is not the slice of this digest", workload.name.span, hint)


def bound_lines(lines: dict[str, list[Bound]], word: str) -> Bound | None:
    """The only statement of a word, None where there is none."""
    found = lines.get(word)
    return found[0] if found else None
