"""Workloads and lanes as a spec declares them: their names, their kinds, and which words each kind knows."""

from __future__ import annotations

from torchspec.catalog import WorkloadKind
from torchspec.check.bind import Bound
from torchspec.check.spec import LaneDecl, Text, WorkloadDecl
from torchspec.check.structure import Context, walk
from torchspec.check.values import text_of, texts
from torchspec.check.words import WORDS, Row, Slot
from torchspec.check.workload import Known, Reader
from torchspec.core.diagnostics import Label, Span
from torchspec.syntax.ast import Statement, Value


class Workloads:
    """Every workload of a spec, those of lanes included, in the order of the file."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.made: list[WorkloadDecl] = []
        self.lanes: list[LaneDecl] = []
        self._names: dict[str, Span] = {}
        self._lane_names: dict[str, Span] = {}

    @property
    def names(self) -> list[str]:
        """Every name that was declared, by a workload that could not be made too."""
        return list(self._names)

    def lane(self, bound: Bound, known: Known) -> None:
        """Takes one `lane` statement with its workloads."""
        name = bound.one()
        if name is None or not self._new(name, self._lane_names, "lane"):
            return
        inner = walk(self.context, "lane", bound.statement.block or ())
        owner = inner.get("owner", [])
        hardware = inner.get("hardware", [])
        switches: list[tuple[Text, Text]] = []
        for line in inner.get("disable", []):
            variable, value = line.one(0), line.one(1)
            if variable is not None and value is not None:
                switches.append((Text(variable.text, variable.span), Text(value.text, value.span)))
        made = LaneDecl(
            Text(name.text, name.span),
            text_of(owner[0].one()) if owner else None,
            texts(hardware[0].many()) if hardware else (),
            tuple(switches),
            bound.statement.span,
        )
        self.lanes.append(made)
        for line in inner.get("workload", []):
            self.workload(line, known, made)

    def workload(self, bound: Bound, known: Known, lane: LaneDecl | None = None) -> None:
        """Takes one `workload` statement."""
        name = bound.one()
        if name is None or not self._new(name, self._names, "workload"):
            return
        statements = bound.statement.block or ()
        kind_line = next((s for s in statements if s.word == "kind"), None)
        kind_name = kind_line.arguments[0][0] if kind_line is not None and kind_line.arguments else None
        kind = self.context.catalog.workloads.get(kind_name.text) if kind_name is not None else None
        own = self._own_words(kind, kind_line is None, statements)
        inner = walk(self.context, "workload", statements, own)
        if kind_name is not None and kind_name.kind == "name" and kind is None:
            self.context.unknown(
                "TS214", "kind of work", kind_name.text, kind_name.span, self.context.catalog.workloads
            )
        if kind_line is None and not bound.broken:
            hint = "for example: kind attention"
            self.context.missing("kind", f"workload `{name.text}` has no `kind`", name.span, hint)
        if kind is None or kind_name is None:
            return
        one = Reader(self.context, kind, inner, known, name)
        made = one.make(bound, kind_name, lane)
        if made is not None:
            self.made.append(made)

    def _own_words(
        self, kind: WorkloadKind | None, missing: bool, statements: tuple[Statement, ...]
    ) -> tuple[Row, ...]:
        """The words of the kind itself. Of an unknown kind every word may be one, and without a kind those of any."""
        if kind is not None:
            return tuple(_option_row(word, values, word in kind.lists) for word, values, _ in kind.options)
        words = {option[0] for row in self.context.catalog.workloads.values() for option in row.options}
        if not missing:
            words = {s.word for s in statements if s.word}
        return tuple(Row(word, "", (Slot("rest", ""),), repeat=True) for word in sorted(words - _USUAL_WORDS))

    def _new(self, name: Value, names: dict[str, Span], what: str) -> bool:
        before = names.setdefault(name.text, name.span)
        if before is not name.span:
            label = (Label(before, "first here"),)
            self.context.say("TS219", f"there are two {what}s `{name.text}`", name.span, "rename one", label)
            return False
        return True


_USUAL_WORDS = frozenset(row.word for row in WORDS["workload"])


def _option_row(word: str, values: tuple[str, ...], many: bool) -> Row:
    usual = Slot("name", "one of " + ", ".join(values), many=many)
    count, tolerance = Slot("count", "a whole number"), Slot("number", "a relative difference")
    numbers: dict[tuple[str, ...], Slot] = {("count",): count, ("tolerance",): tolerance}
    return Row(word, "", (numbers.get(values, usual),))
