"""The `deviations` block: what was done otherwise than planned, by whom and why. It stands last, and it only grows.

Whether an earlier line was changed or taken out is the history's to tell (`provenance`), not the text's.
"""

from __future__ import annotations

from torchspec.check.bind import Bound
from torchspec.check.spec import DeviationDecl, Text
from torchspec.check.structure import Context, after, walk
from torchspec.core.diagnostics import Label
from torchspec.syntax.ast import Statement


def deviations(
    context: Context, bound: Bound | None, statements: list[Statement], main: bytes
) -> tuple[DeviationDecl, ...]:
    """The deviations in order. Diagnostics: TS203 (what a line lacks), TS414 (not last), TS415 (out of order)."""
    if bound is None:
        return ()
    from torchspec.core.registered import deviation_lines

    made: list[DeviationDecl] = []
    for line in walk(context, "deviations", bound.statement.block or ()).get("deviation", []):
        date, text = line.one(0), line.one(1)
        by, because = line.one(name="by"), line.one(name="because")
        for value, word, what in ((by, "by", "who did it"), (because, "because", "the reason")):
            if (value is None and word not in line.places) or (value is not None and not value.text.strip()):
                if not line.statement.broken:
                    context.say("TS203", f"`deviation` lacks `{word}` and {what}", after(line.statement))
                break
        if date is None or text is None or by is None or because is None:
            continue
        if made and date.text < made[-1].date.text:
            label = (Label(made[-1].date.span, "the one before"),)
            hint = "add a deviation at the end, dated when it is written down"
            context.say("TS415", "this deviation is dated before the one above it", date.span, hint, label)
        made.append(DeviationDecl(*(Text(v.text, v.span) for v in (date, text, by, because))))
    last = statements[-1] is bound.statement
    if not last or len(deviation_lines(main)) != len(bound.statement.block or ()):
        hint = "put the block at the end of the file, one deviation a line, with nothing after it but comments"
        context.say("TS414", "`deviations` is not the last thing in the spec", bound.statement.word_span, hint)
    return tuple(made)
