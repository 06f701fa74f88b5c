"""Codes TS7xx (evidence and judging)."""

from __future__ import annotations

from torchspec.core.codes._row import Code

TABLE: tuple[Code, ...] = ()
