"""The topics of `torchspec docs`: the reference from the tables, and the pages written by hand.

`docs/language.md` holds parts between `<!-- tables: NAME -->` and `<!-- end -->` that the tables fill. After a table
has changed: `python -m torchspec.cli.manual`; a test holds the page in step.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from torchspec import reference
from torchspec.check.controls import COMPILE, SETTINGS
from torchspec.check.words import GATE, WORDS, Row, Slot

PAGES = Path(__file__).resolve().parent.parent / "docs"
_PART = re.compile(r"(<!-- tables: ([a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


#: What the named values of a line say that need more than their form.
NAMED = {
    "at": "narrows the line to values of axes",
    "in": "narrows the line to modes",
    "on": "narrows the line to backends",
    "against": "what the candidate is compared with; without it, with the baseline",
    "sees": "the planted change that the run's control must notice; it lies beyond the limit",
    "repeats": "how many runs a fact rests on",
    "else": "what a failure means, decided before anything is measured: isolate, defer or rollback",
    "because": "the reason, for whoever reads the memo",
    "until": "the day on which it ends",
    "beside": "the old path, which stays until the new one has earned its place",
    "may_differ": "packages that may differ between the sides beside torch and what it pins",
}


def topics() -> dict[str, Callable[[], str]]:
    """Topic -> a function that gives its Markdown: the language first, then the tables, then the other pages."""
    pages = sorted(p.stem for p in PAGES.glob("*.md") if p.stem != "language")
    made: dict[str, Callable[[], str]] = {"language": lambda: re.sub(r"<!-- .*? -->\n", "", language())}
    made.update(reference.topics())
    made.update({name: _page(name) for name in pages if name not in made})
    return made


def _page(name: str) -> Callable[[], str]:
    return lambda: (PAGES / f"{name}.md").read_text(encoding="utf-8").rstrip("\n")


def language() -> str:
    """`docs/language.md` with its parts filled from the tables as they are."""
    text = (PAGES / "language.md").read_text(encoding="utf-8")
    return _PART.sub(lambda match: match[1] + _part(match[2]) + "\n" + match[3], text)


def _part(name: str) -> str:
    if name == "gate":
        return f"    {signature(GATE, 'METRIC')}"
    if name == "limits":
        return reference.limits().split("\n\n", 1)[1].replace("### Units\n\n", "")
    if name == "settings":
        rows = [("setting", name, values) for name, values in SETTINGS.items()]
        rows += [("compile", name, values) for name, values in COMPILE.items()]
        lines = [f"| `{word} {name}` | {', '.join(f'`{v}`' for v in values)} |" for word, name, values in rows]
        return "\n".join(["| Setting | Values |", "|---|---|", *lines])
    return words(name.removeprefix("words "))


def word_texts() -> dict[str, str]:
    """Every word of the language, what it says and how it is written, in each block that knows it."""
    made: dict[str, list[str]] = {}
    for block, rows in {**WORDS, "gates": (*WORDS["gates"], GATE)}.items():
        where = "at the top of a file" if block == "file" else f"in `{block}`"
        for row in rows:
            word = row.word or "METRIC"
            text = f"{row.word}, {where}: {row.meaning}\n    {signature(row, word)}"
            text += f"\n    for example: {row.example}" if row.example else ""
            if row.word:
                made.setdefault(row.word, []).append(text)
            for name, slots in row.named:
                line = f"    {name} {' '.join(_slot(s) for s in slots)}"
                meaning = f": {NAMED[name]}" if name in NAMED else ""
                said = f"{name}, on a line of `{word}` {where}{meaning}\n{line}"
                made.setdefault(name, []).append(said)
    return {word: "\n".join(texts) for word, texts in made.items()}


def words(block: str) -> str:
    """The statements of a block as a table."""
    rows = [f"| `{signature(row, row.word)}` | {row.meaning} |" for row in WORDS[block]]
    return "\n".join(["| Statement | What it says |", "|---|---|", *rows])


def signature(row: Row, word: str) -> str:
    """A statement's form: `<what>` is a value, `, …` says that a list may stand there, `[…]` may be left out."""
    parts = [word, *(_slot(s) for s in row.slots)]
    parts += [f"[{name} {' '.join(_slot(s) for s in slots)}]" for name, slots in row.named]
    if row.block is not None:
        parts.append("{")
    return " ".join(parts)


def _slot(slot: Slot) -> str:
    what = slot.what or "values"
    text = f'"<{what}>"' if slot.kind == "string" else f"<{what}>"
    text = f"{slot.mark} {text}" if slot.mark else text
    text += ", …" if slot.many else " …" if slot.kind == "pairs" else ""
    return text if slot.needed else f"[{text}]"


if __name__ == "__main__":
    (PAGES / "language.md").write_text(language(), encoding="utf-8")
