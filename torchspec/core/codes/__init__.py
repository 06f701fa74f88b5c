"""Every diagnostic code with its explanation, one table a range. `torchspec explain CODE` prints a row.

Ranges: TS1xx syntax · TS2xx names and structure · TS3xx units and types · TS4xx controls (frozen work, environments) ·
TS5xx policy (can every gate fail?) · TS6xx provisioning and running · TS7xx evidence and judging · TS8xx provenance and
signatures · TS9xx plugins and the tool.
"""

from __future__ import annotations

from torchspec.core.codes import evidence, plugins, policy, running, signing, syntax, tool, types
from torchspec.core.codes._row import Code

CODES: dict[str, Code] = {}
for _table in (
    syntax.TABLE,
    types.TABLE,
    policy.TABLE,
    running.TABLE,
    evidence.TABLE,
    signing.TABLE,
    plugins.TABLE,
    tool.TABLE,
):
    for _row in _table:
        if _row.code in CODES:
            raise AssertionError(f"two rows for {_row.code}")
        CODES[_row.code] = _row

__all__ = ["CODES", "Code"]
