"""Codes TS5xx (policy)."""

from __future__ import annotations

from torchspec.core.codes._row import Code

TABLE: tuple[Code, ...] = ()
