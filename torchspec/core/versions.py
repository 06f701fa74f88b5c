"""What an exact version looks like. Must not ask any index whether it exists."""

from __future__ import annotations

import re

#: One release and nothing else: 2.14.1, 2.15.0rc1, 2.16.0.dev20261101, 2.14.1+cu130.
EXACT = re.compile(r"[0-9]+(\.[0-9]+){2,}((a|b|rc)[0-9]+)?(\.post[0-9]+)?(\.dev[0-9]+)?(\+[A-Za-z0-9.]+)?")


def is_exact(version: str) -> bool:
    """Whether `version` names one release of torch in full."""
    return len(version) < 100 and EXACT.fullmatch(version) is not None
