"""Codes TS6xx (provisioning and running) and TS9xx (plugins and the tool)."""

from __future__ import annotations

from torchspec.core.codes._row import Code

TABLE: tuple[Code, ...] = ()
