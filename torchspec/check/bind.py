"""Binds a statement's arguments to the slots of its word: which value is which, and what is missing or left over.

Knows the table of words and the kinds of values; must not look names up.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torchspec.check.words import Row, Slot
from torchspec.core.diagnostics import Diagnostic, Span
from torchspec.core.near import meant
from torchspec.syntax.ast import Statement, Value

Group = tuple[Value, ...]
Pair = tuple[Value, Group]


@dataclass(slots=True)
class Bound:
    """A statement with its values in place, by named value; what needs no name is under "".

    `row` is what the statement's word was taken for. `lost`: values were left over and reported, so what seems to be
    missing may be among them.
    """

    statement: Statement
    row: Row
    slots: dict[str, list[Group]] = field(default_factory=dict)  # "" or the named value -> one group a slot
    pairs: dict[str, list[Pair]] = field(default_factory=dict)
    rest: list[Group] = field(default_factory=list)
    places: dict[str, Span] = field(default_factory=dict)  # where a named value's own word stands
    lost: bool = False

    @property
    def broken(self) -> bool:
        """Whether a mistake on this line was reported already."""
        return self.lost or self.statement.broken

    def one(self, position: int = 0, name: str = "") -> Value | None:
        """The single value of a slot, None where it is missing."""
        groups = self.slots.get(name, [])
        return groups[position][0] if position < len(groups) and groups[position] else None

    def many(self, position: int = 0, name: str = "") -> Group:
        """The values of a slot that takes a list."""
        groups = self.slots.get(name, [])
        return groups[position] if position < len(groups) else ()


_KINDS = {
    "name": ("name",),
    "string": ("string",),
    "count": ("number",),
    "number": ("number",),
    "quantity": ("number",),
    "date": ("date",),
    "value": ("name", "string", "number"),
}
_SAID = {
    "name": "a name",
    "string": 'text in quotes ("…")',
    "count": "a whole number",
    "number": "a number",
    "quantity": "a number, with its unit",
    "date": "a date (2026-12-31)",
    "value": "a value",
}
_IS = {"name": "a name", "string": "text", "number": "a number", "date": "a date", "relation": "a relation"}


def bind(statement: Statement, row: Row, found: list[Diagnostic], also: tuple[str, ...] = ()) -> Bound:
    """`statement` bound to `row`; mistakes go to `found`. `also`: more named values for "did you mean"."""
    return _Binder(statement, row, found, also).run()


class _Binder:
    def __init__(self, statement: Statement, row: Row, found: list[Diagnostic], also: tuple[str, ...]) -> None:
        self.statement = statement
        self.row = row
        self.found = found
        self.named = dict(row.named)
        self.also = also
        self.groups = list(statement.arguments)
        self.position = 0
        self.bound = Bound(statement, row)

    def run(self) -> Bound:
        self._fill("", self.row.slots)
        while self.position < len(self.groups):
            group = self.groups[self.position]
            name = self._named(group)
            if name is None:
                self._left_over(group)
                break
            self.position += 1
            if name in self.bound.places:
                self._say("TS206", f"`{name}` stands twice on this line", group[0].span, "keep one")
            self.bound.places[name] = group[0].span
            self._fill(name, self.named[name])
        return self.bound

    def _named(self, group: Group) -> str | None:
        first = group[0]
        return first.text if first.kind == "name" and len(group) == 1 and first.text in self.named else None

    def _fill(self, name: str, slots: tuple[Slot, ...]) -> None:
        filled = self.bound.slots.setdefault(name, [])
        filled.clear()
        for slot in slots:
            if slot.kind == "rest":
                while self.position < len(self.groups) and self._named(self.groups[self.position]) is None:
                    group = self.groups[self.position]
                    self.position += 1
                    self.bound.rest.append(self._with_unit(group) if group[0].kind == "number" else group)
                continue
            if slot.kind == "pairs":
                self._pairs(name, slot)
                continue
            if slot.mark is not None and not self._mark(slot, name):
                return
            if self.position >= len(self.groups) or (
                self._named(self.groups[self.position]) is not None and not self._fits(slot)
            ):
                self._missing(slot, name)
                return
            group = self.groups[self.position]
            if not slot.needed and group[0].kind not in _KINDS[slot.kind]:
                filled.append(())
                continue
            self.position += 1
            filled.append(self._checked(slot, self._with_unit(group) if slot.kind == "quantity" else group))

    def _with_unit(self, group: Group) -> Group:
        """The number, with the unit that a spelled-out one after it stands for; the group itself where none does."""
        value = group[-1]
        if value.unit is not None or self.position >= len(self.groups):
            return group
        after = self.groups[self.position]
        if len(after) > 1 or after[0].kind != "name" or self._named(after) is not None:
            return group
        from torchspec.core.elsewhere import unit_called

        unit = unit_called(after[0].text)
        if unit is None:
            return group
        self.position += 1
        hint = f"write `{value.text} {unit}`"
        self._say("TS123", f"`{after[0].text}` is not how a unit is written", after[0].span, hint)
        return (*group[:-1], replace(value, unit=unit))

    def _fits(self, slot: Slot) -> bool:
        """Whether a word that is also the name of a named value is meant as a name: only as the first of several."""
        return slot.kind in ("name", "value") and self.position == 0 and len(self.groups) > 1

    def _mark(self, slot: Slot, name: str) -> bool:
        if self.position < len(self.groups):
            group = self.groups[self.position]
            if group[0].kind == "name" and group[0].text == slot.mark and len(group) == 1:
                self.position += 1
                return True
        if slot.needed:
            if self.position < len(self.groups):
                where = self.groups[self.position][0].span
                self._say("TS203", f"`{slot.mark}` is missing before this", where, self._example())
                self.position = len(self.groups)
            else:
                self._missing(slot, name)
        return False

    def _missing(self, slot: Slot, name: str) -> None:
        if not slot.needed:
            return
        before = f"`{slot.mark}` and " if slot.mark else ""
        word = name or self.statement.word
        last = self.groups[self.position - 1][-1].span if self.position else self.statement.word_span
        place = Span(last.file, last.end_line, last.end_column, last.end_line, last.end_column + 1)
        self._say("TS203", f"`{word}` lacks {before}{slot.what}", place, self._example())

    def _checked(self, slot: Slot, group: Group) -> Group:
        good: list[Value] = []
        for value in group:
            if value.kind not in _KINDS[slot.kind]:
                self._kind(slot, value)
            elif slot.kind in ("count", "number") and value.unit is not None:
                hint = f"write {value.text} without a unit; names of units are reserved"
                self._say("TS205", f"{slot.what} has no unit, and this has `{value.unit}`", value.span, hint)
            elif slot.kind == "count" and (not isinstance(value.number, int) or value.number < 0):
                self._say("TS308", f"{value.text} is not a whole number from 0 on", value.span, None)
            else:
                good.append(value)
        if len(group) > 1 and not slot.many:
            self._say("TS204", f"one value stands here, not {len(group)}", group[1].span, self._example())
            return tuple(good[:1])
        return tuple(good)

    def _kind(self, slot: Slot, value: Value) -> None:
        hint = f'write "{value.text}"' if slot.kind == "string" and value.kind in ("name", "number", "date") else None
        if slot.kind == "name" and value.kind == "string":
            hint = f"write {value.text}, without quotes" if value.text.replace(".", "_").isidentifier() else None
        message = f"{slot.what} is {_SAID[slot.kind]}, not {_IS.get(value.kind, 'this')}"
        self._say("TS205", message, value.span, hint or self._example())

    def _pairs(self, name: str, slot: Slot) -> None:
        made = self.bound.pairs.setdefault(name, [])
        while self.position < len(self.groups):
            group = self.groups[self.position]
            if self._named(group) is not None:
                break
            key = group[0]
            if key.kind != "name" or len(group) > 1:
                self._say("TS205", f"{slot.what}: a name is expected here", key.span, self._example())
                self.position = len(self.groups)
                return
            self.position += 1
            if self.position >= len(self.groups):
                self._missing(Slot("value", f"a value for `{key.text}`"), name)
                return
            made.append((key, self.groups[self.position]))
            self.position += 1
        if not made and slot.needed:
            self._missing(slot, name)

    def _left_over(self, group: Group) -> None:
        first, word = group[0], self.statement.word
        near = meant(first.text, [*self.named, *self.also]) if first.kind == "name" else None
        if first.kind == "name" and (near or not self._list()):
            known = ", ".join(n for n in self.named if n not in self.bound.places)
            follows = f"what may follow: {known}" if known else self._example()
            hint = f"did you mean {near}?" if near else follows
            self._say("TS202", f"`{word}` knows no `{first.text}`", first.span, hint)
        else:
            inside = "what it says stands in its block, one statement a line" if self.row.block else None
            hint = self._list() or inside or self._example()
            self._say("TS204", f"`{word}` takes no more values", first.span, hint)
        self.bound.lost = True

    def _list(self) -> str | None:
        """How to write values as a list, where one may stand before the values that are left over."""
        before = self.groups[self.position - 1] if self.position else ()
        last = self.groups[self.position]
        slots = [s for _, named in (("", self.row.slots), *self.row.named) for s in named]
        if (
            before
            and before[0].kind == last[0].kind
            and any(s.many and before[0].kind in _KINDS[s.kind] for s in slots)
        ):
            return f"a comma joins the values of a list: {before[-1].written}, {last[0].written}"
        return None

    def _example(self) -> str | None:
        return f"for example: {self.row.example}" if self.row.example else None

    def _say(self, code: str, message: str, span: Span, hint: str | None) -> None:
        if not self.statement.broken:
            self.found.append(Diagnostic(code, message, span, hint=hint))
