"""The cache of environments, outside any project: where they are, who may build one, and which of them is whole.

An environment stands at its final place while it is built (a venv knows its own path), so what makes it whole is a file
written last: `environment.json`. Without that file, or with one that does not fit what is there, the folder is scrap
and is removed. A lock on a file beside it lets one process build; the lock lives as long as any process of the build.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from torchspec.core.canon import canonical, digest
from torchspec.core.files import write_whole

MARKER = "environment.json"
VARIABLE = "TORCHSPEC_CACHE"


def cache_folder() -> Path:
    """The user's cache folder for torchspec; the variable TORCHSPEC_CACHE names another one."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("torchspec", appauthor=False))


class Slot:
    """The place of one environment in the cache, by the digest of what was asked for."""

    def __init__(self, cache: Path, key: str) -> None:
        self.cache, self.key = cache, key
        self.folder = cache / "environments" / key
        self.venv = self.folder / "venv"
        self.log = cache / "logs" / f"{key}.log"

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    @contextlib.contextmanager
    def locked(self, waiting: Callable[[], None]) -> Iterator[int]:
        """Hold the slot's lock (its file descriptor is the value); `waiting` is called once where that takes a while.

        Raises OSError.
        """
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._sweep()
            yield descriptor
        finally:
            os.close(descriptor)

    def _sweep(self) -> None:
        for scrap in self.folder.parent.glob(f".scrap-{self.key}-*"):
            shutil.rmtree(scrap, ignore_errors=True)

    def discard(self) -> None:
        """Remove what stands here: renamed first, so that no part of it stays at the place of a whole one."""
        if self.folder.is_symlink() or self.folder.exists():
            away = tempfile.mkdtemp(prefix=f".scrap-{self.key}-", dir=self.folder.parent)
            os.rename(self.folder, Path(away) / "environment")
        self._sweep()

    def finish(self, lock: dict[str, Any], seconds: float) -> None:
        """Make the environment whole: everything to the disk, then the marker, by rename. Raises OSError."""
        os.sync()
        write_atomic(self.folder / MARKER, {"lock": lock, "digest": digest(lock), "seconds": round(seconds, 1)})

    def recorded(self) -> dict[str, Any] | None:
        """The lock in the marker, where there is a marker that holds together; else None."""
        marker = read_marker(self.folder / MARKER)
        return marker["lock"] if marker else None


def read_marker(file: Path) -> dict[str, Any] | None:
    """A marker whose lock gives its digest; else None."""
    try:
        marker = json.loads(file.read_bytes())
        whole = digest(marker["lock"]) == marker["digest"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return marker if whole else None


def usual_seconds(cache: Path) -> float | None:
    """How long environments in this cache took to make: the longest; None where there is none yet."""
    folder = cache / "environments"
    took = [marker["seconds"] for file in folder.glob(f"*/{MARKER}") if (marker := read_marker(file))]
    return max((float(s) for s in took if isinstance(s, int | float)), default=None)


def write_atomic(path: Path, value: Any) -> None:
    """JSON into a file, whole or not at all. Raises OSError."""
    write_whole(path, canonical(value))
