"""The words of one workload beside its axes: model, tokenizer, data, counts, share, and those of its kind."""

from __future__ import annotations

import re
from typing import Any

from torchspec.catalog import WorkloadKind
from torchspec.check.bind import Bound
from torchspec.check.structure import Context
from torchspec.check.units import wanted
from torchspec.syntax.ast import Value

_DIGEST = re.compile(r"sha256:[0-9a-f]{8,64}")


def read_options(context: Context, kind: WorkloadKind, inner: dict[str, list[Bound]]) -> dict[str, Any]:
    """The options as they travel in the plan. `inner`: the workload's statements by word."""
    return _Options(context, kind, inner).read()


class _Options:
    def __init__(self, context: Context, kind: WorkloadKind, inner: dict[str, list[Bound]]) -> None:
        self.context = context
        self.kind = kind
        self.inner = inner

    def first(self, word: str) -> Bound | None:
        lines = self.inner.get(word)
        return lines[0] if lines else None

    def read(self) -> dict[str, Any]:
        options: dict[str, Any] = {}
        for word in ("model", "tokenizer"):
            line = self.first(word)
            value = line.one() if line else None
            if line is not None and value is not None:
                commit = line.one(name="commit")
                options[word] = {"name": value.text, "commit": commit.text if commit else None}
                if commit is None and not line.broken:
                    hint = f'write: {word} "{value.text}"  commit "…"'
                    self.context.say("TS413", f"the {word} has no commit, so it is not frozen", value.span, hint)
        data = self.first("data")
        file = data.one() if data else None
        if data is not None and file is not None:
            options["data"] = self._data(data, file)
        counts = self.first("counts")
        number, unit = (counts.one(0), counts.one(1)) if counts else (None, None)
        if number is not None and unit is not None:
            if number.number == 0:
                self.context.say("TS308", "`counts` is a whole number from 1 on", number.span)
            options["counts"] = {"value": number.number, "unit": unit.text}
        share = self.first("share")
        if share is not None:
            part = wanted(self.context, share.one(0), "ratio", "a share of the traffic")
            time = wanted(self.context, share.one(2), "time", "how long a share is served")
            if part and time:
                options["share"] = {"part": part.value, "seconds": time.value}
        if self.kind.name == "ingested":
            files = self.inner["kind"][0].one(1) if self.inner.get("kind") else None
            if files is not None:
                options["files"] = files.text
        for word, allowed, default in self.kind.options:
            line = self.first(word)
            group = line.many() if line else ()
            counted = allowed in (("count",), ("tolerance",))
            for value in group:
                if allowed == ("tolerance",) and not (value.number is not None and 0 <= value.number < 1):
                    message = f"`{word}` is a relative difference, from 0 to below 1, not {value.written}"
                    self.context.say("TS308", message, value.span, f"for example: {word} 1e-5")
                elif allowed == ("count",) and not (isinstance(value.number, int) and value.number >= 1):
                    message = f"`{word}` is a whole number from 1 on, not {value.written}"
                    self.context.say("TS308", message, value.span, f"for example: {word} 8")
                elif not counted and value.text not in allowed:
                    self.context.unknown("TS216", f"value of `{word}`", value.text, value.span, allowed)
            chosen = [value.number if counted else value.text for value in group]
            if chosen:
                options[word] = chosen[0] if len(chosen) == 1 else chosen
            elif default is not None:
                options[word] = default
        return options

    def _data(self, line: Bound, file: Value) -> dict[str, Any]:
        made: dict[str, Any] = {"file": file.text, "rows": None, "digest": None}
        digest = line.one(name="digest")
        if digest is not None:
            if not _DIGEST.fullmatch(digest.text):
                hint = 'for example: digest "sha256:9c1e5ab07d"'
                self.context.say("TS406", f'"{digest.text}" is not a digest', digest.span, hint)
            made["digest"] = digest.text
        elif not line.broken:
            hint = f'write: data "{file.text}"  digest "sha256:…"'
            self.context.say("TS413", "the data slice has no digest, so it is not frozen", file.span, hint)
        start, end = line.one(0, "rows"), line.one(1, "rows")
        if start is not None and end is not None and isinstance(start.number, int) and isinstance(end.number, int):
            if start.number >= end.number:
                self.context.say("TS308", "the first row comes before the row after the last", end.span)
            made["rows"] = [start.number, end.number]
        return made
