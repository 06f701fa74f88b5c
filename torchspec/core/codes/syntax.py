"""Codes TS1xx (syntax) and TS2xx (names and structure)."""

from __future__ import annotations

from torchspec.core.codes._row import Code

TABLE: tuple[Code, ...] = ()
