"""A peer that gives no answer says why: it is not installed, or it took too long."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from torchspec.bench import asking, peers


def test_a_peer_that_is_not_installed_is_unavailable_with_its_name(tmp_path: Path) -> None:
    ask = asking.Ask(sys.executable, str(tmp_path), ("attention",), 0.0, 0.03, 1.0)
    with pytest.raises(asking.Unavailable, match="pyperf is not installed"):
        peers.run("pyperf", ask)


def test_a_peer_that_takes_too_long_gives_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_CALLS", "import time; time.sleep(600)")
    ask = asking.Ask(sys.executable, None, ("attention",), 0.0, 0.03, 0.2)
    with pytest.raises(asking.Unavailable, match="no answer within 1 s, 5 times the time that it was given"):
        peers.run("a then b", ask)
