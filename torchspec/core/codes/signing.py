"""Codes TS8xx (provenance and signatures)."""

from __future__ import annotations

from torchspec.core.codes._row import Code

TABLE: tuple[Code, ...] = ()
