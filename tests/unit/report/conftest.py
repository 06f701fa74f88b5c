"""Memos with invented figures, made once a session."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from torchspec.model.memo import Memo
from torchspec.report import render as rendering
from torchspec.report.view import view


def load_invented() -> ModuleType:
    """tests/unit/report/invented.py as a module, whatever the import mode."""
    if "invented_memo" not in sys.modules:
        spec = importlib.util.spec_from_file_location("invented_memo", Path(__file__).with_name("invented.py"))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["invented_memo"] = module
        spec.loader.exec_module(module)
    return sys.modules["invented_memo"]


@pytest.fixture(scope="session")
def invented() -> ModuleType:
    return load_invented()


@pytest.fixture(scope="session")
def memo(invented: ModuleType) -> Memo:
    plan = invented.plan()
    return view(plan, invented.verdict(plan), **invented.arguments())


@pytest.fixture(scope="session")
def evil(invented: ModuleType) -> Memo:
    plan, verdict, arguments = invented.hostile()
    return view(plan, verdict, **arguments)


@pytest.fixture(scope="session")
def pdf(memo: Memo) -> bytes:
    return rendering.pdf_of(memo, attachments={"memo.json": b'{"a":1}', "verdict.json": b"{}"})
