"""What is loaded when: nothing heavy by importing provenance, GitPython alone by what `compile` uses of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HEAVY = ("git", "pyhanko", "cryptography", "asn1crypto", "weasyprint", "scipy", "numpy", "torch", "platformdirs")


def loaded(repository: Path, code: str) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after `code`."""
    report = f"import sys; print(*[n for n in {HEAVY!r} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], cwd=repository, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_provenance_loads_nothing_heavy(repository: Path) -> None:
    rooms = sorted(p.stem for p in (repository / "torchspec" / "provenance").glob("*.py") if p.stem != "__init__")
    assert "pades" in rooms
    code = "\n".join(f"import torchspec.provenance.{room}" for room in rooms)
    assert loaded(repository, code) == set()


def test_what_compile_uses_loads_gitpython_only(repository: Path) -> None:
    code = (
        "from pathlib import Path\n"
        "from torchspec.provenance import git, lock, registration, terms\n"
        "git.describe(Path('README.md'))\n"
        "lock.check_lock(Path('nowhere'))\n"
    )
    assert loaded(repository, code) == {"git"}
