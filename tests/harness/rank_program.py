"""The rank program as torchrun starts it in tests, from the package instead of from an emitted harness file."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from torchspec.harness.dist_program import run_rank

if __name__ == "__main__":
    sys.exit(run_rank(sys.argv[1:]))
