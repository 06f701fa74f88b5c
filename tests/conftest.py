"""Fixtures that several rooms share: the two real interpreters, and the repository's folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# In CI the same examples every time: what is found there can be found again. New ones are looked for elsewhere.
settings.register_profile("ci", deadline=None, derandomize=True)
settings.register_profile("dev", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repository() -> Path:
    return ROOT


def _interpreter(variable: str) -> Path:
    value = os.environ.get(variable)
    if not value:
        pytest.fail(f"{variable} must name a Python with torch; `make test` provisions both and sets it", pytrace=False)
    return Path(value)


@pytest.fixture(scope="session")
def baseline_python() -> Path:
    """The Python of the baseline environment (torch 2.13.0)."""
    return _interpreter("TORCHSPEC_TEST_BASELINE")


@pytest.fixture(scope="session")
def candidate_python() -> Path:
    """The Python of the candidate environment (torch 2.14.1)."""
    return _interpreter("TORCHSPEC_TEST_CANDIDATE")
