"""Codes TS3xx (units and types) and TS4xx (controls)."""

from __future__ import annotations

from torchspec.core.codes._row import Code

TABLE: tuple[Code, ...] = ()
