"""Memos with invented figures, made once a session."""

from __future__ import annotations

from types import ModuleType

import invented as verdicts
import pytest

from torchspec.model.memo import Memo
from torchspec.report import render as rendering
from torchspec.report.view import view


@pytest.fixture(scope="session")
def invented() -> ModuleType:
    return verdicts


@pytest.fixture(scope="session")
def memo(invented: ModuleType) -> Memo:
    plan = invented.plan()
    return view(plan, invented.verdict(plan), **invented.arguments())


@pytest.fixture(scope="session")
def evil(invented: ModuleType) -> Memo:
    plan, verdict, arguments = invented.hostile()
    return view(plan, verdict, **arguments)


@pytest.fixture(scope="session")
def page(memo: Memo) -> str:
    return rendering.html_of(memo)


@pytest.fixture(scope="session")
def pdf(memo: Memo) -> bytes:
    return rendering.pdf_of(memo, attachments={"memo.json": b'{"a":1}', "verdict.json": b"{}"})
