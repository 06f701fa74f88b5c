"""What the cheap commands load: a module too many is a tenth of a second of every keystroke of an editor's check."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

#: Modules of the standard library and of ours that cost much, or that only other commands need.
ALWAYS_LATE = (
    "json", "subprocess", "hashlib", "tempfile", "difflib", "importlib.metadata", "lark", "packaging", "jsonschema",
    "torchspec.model.plan", "torchspec.lower", "torchspec.emit", "torchspec.provenance", "torchspec.core.codes",
    "torchspec.core.elsewhere", "torchspec.pipeline", "torchspec.cli.measuring", "torchspec.cli.running", "git",
    "scipy", "numpy",
)  # fmt: skip
VERSION_LATE = (*ALWAYS_LATE, "argparse", "dataclasses", "inspect", "pathlib", "torchspec.core.diagnostics")


@pytest.mark.parametrize(
    ("command", "late"),
    [(["--version"], VERSION_LATE), (["check", "specs/fused_loss.tspec"], ALWAYS_LATE)],
    ids=["version", "check"],
)
def test_only_what_is_needed_is_loaded(command: list[str], late: tuple[str, ...], repository: Path) -> None:
    code = (
        "import sys\nfrom torchspec.cli import main\ntry:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        f"print('loaded:', *[n for n in {late!r} if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, *command], cwd=repository, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip().split("\n")[-1] == "loaded:", done.stderr
