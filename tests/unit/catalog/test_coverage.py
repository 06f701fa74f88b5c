"""The page of what the articles ask for names metrics, kinds, files and pages that exist, and what a spec may say."""

from __future__ import annotations

import re
from pathlib import Path

from torchspec import catalog
from torchspec.catalog.workloads import MASKS
from torchspec.check.controls import SETTINGS

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "torchspec" / "docs" / "coverage.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"`([^`]+)`", PAGE)


def test_every_metric_that_is_named_is_in_the_catalog() -> None:
    rows = catalog.load()
    groups = {name.split(".")[0] for name in rows.metrics if "." in name}
    named = set(re.findall(rf"(?<![\w.])((?:{'|'.join(sorted(groups))})\.[a-z0-9_]+)(?![\w(*])", " ".join(QUOTED)))
    assert len(named) > 40
    assert named - set(rows.metrics) - {"checkpoint.py"} == set()


def test_every_kind_and_backend_that_is_named_is_in_the_catalog() -> None:
    rows = catalog.load()
    kinds = set(re.findall(r"kind ([a-z_0-9]+)", " ".join(QUOTED)))
    assert len(kinds) >= 9
    assert kinds <= set(rows.workloads)
    masks = {mask for text in QUOTED if text.startswith("mask ") for mask in re.findall(r"[a-z_]+", text)[1:]}
    assert masks - {"with", "kind"} <= set(MASKS)


def test_every_setting_that_is_named_is_one() -> None:
    named = set(re.findall(r"setting ([a-z0-9_]+)", " ".join(QUOTED)))
    assert len(named) > 1
    assert named <= set(SETTINGS)


def test_every_file_that_is_named_is_there() -> None:
    for name in re.findall(r"specs/[\w./]+\.tspec", PAGE):
        assert (ROOT / name).is_file(), name
    for name in re.findall(r"\]\(([\w-]+\.md)\)", PAGE):
        assert (ROOT / "torchspec" / "docs" / name).is_file(), name


def test_every_line_says_where() -> None:
    lines = [
        line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| the articles", "|--"))
    ]
    assert len(lines) > 70
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        assert len(cells) == 3, line
        assert all(cells), line
