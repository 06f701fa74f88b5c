"""Golden memos: the Markdown of invented verdicts, word for word, in tests/cases/memo.

`TORCHSPEC_UPDATE_CASES=1 pytest …` writes them anew; read the difference before it is committed.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

import pytest

from torchspec.report.render import markdown_of
from torchspec.report.view import view

CASES = Path(__file__).resolve().parents[2] / "cases" / "memo"
NAMES = ("quickstart", "adopted", "exploratory", "hostile", "hundred", "espanol", "portugues")


def made(invented: ModuleType, name: str) -> str:
    plan = invented.plan()
    verdict = invented.verdict(plan)
    arguments = invented.arguments()
    if name == "adopted":
        plan, verdict = invented.adopted()
        arguments = invented.arguments(lock=invented.lock(plan))
    elif name == "exploratory":
        arguments = invented.arguments(registration=invented.exploratory(), signer=None)
    elif name == "hostile":
        plan, verdict, arguments = invented.hostile()
    elif name == "hundred":
        plan, verdict = invented.scaled(20)
        arguments = invented.arguments(lock=invented.lock(plan), records=[])
    language = {"espanol": "es", "portugues": "pt"}.get(name, "en")
    return markdown_of(view(plan, verdict, **arguments, language=language))


@pytest.mark.parametrize("name", NAMES)
def test_memo_is_what_it_was(invented: ModuleType, name: str) -> None:
    path = CASES / f"{name}.md"
    text = made(invented, name)
    if os.environ.get("TORCHSPEC_UPDATE_CASES"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
