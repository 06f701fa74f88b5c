"""A memo of a thousand places is made in seconds (processor time, so that a busy machine does not fail it)."""

from __future__ import annotations

import time
from types import ModuleType

import pytest

from torchspec.report import render
from torchspec.report.view import view


@pytest.mark.slow
def test_a_thousand_places(invented: ModuleType) -> None:
    plan, verdict = invented.scaled(200)
    assert len(verdict.rows) == 1000
    arguments = invented.arguments(lock=invented.lock(plan), records=[])
    start = time.process_time()
    memo = view(plan, verdict, **arguments)
    render.markdown_of(memo)
    page = render.html_of(memo)
    assert time.process_time() - start < 4.0  # under 2 s on an idle machine
    assert len(page) < 3_000_000
    start = time.process_time()
    render.pdf_of(memo)
    assert time.process_time() - start < 20.0


@pytest.mark.slow
def test_ten_thousand_places_in_words(invented: ModuleType) -> None:
    plan, verdict = invented.scaled(2000)
    memo = view(plan, verdict, **invented.arguments(lock=invented.lock(plan), records=[]))
    assert "of 10\u202f000 pass" in render.markdown_of(memo)
    assert render.html_of(memo).count('data-key="fail"') > 100
