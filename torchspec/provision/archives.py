"""Keeps the archives that a locked environment was made from, so that it can be made again without any index.

They lie in the cache below their digest, `archives/<sha256>/<file>`, whole or not at all, and are shared by all
environments. pip fetches them (from its own cache, where it has them); nothing is kept whose digest is not the lock's.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

from torchspec.core.canon import file_digest
from torchspec.core.diagnostics import Diagnostic, Result
from torchspec.provision import pip
from torchspec.provision.pip import OnEvent

FOLDER = "archives"
#: A fetch that has not moved for this long was killed.
STALE_S = 24 * 3600.0


def locked(lock: Mapping[str, Any]) -> dict[str, tuple[str, str, str]]:
    """name -> (version, file, sha256) of each package that came from an archive."""
    return {
        str(name): (str(package["version"]), str(package["file"]), str(package["sha256"]))
        for name, package in lock["packages"].items()
        if package.get("sha256") and package.get("file")
    }


def place(cache: Path, sha256: str) -> Path:
    """Where the archive of this digest lies."""
    return cache / FOLDER / sha256


def missing(lock: Mapping[str, Any], cache: Path) -> list[str]:
    """Names of the lock's packages whose archive is not in the cache."""
    return [name for name, (_, file, sha256) in locked(lock).items() if not (place(cache, sha256) / file).is_file()]


def sources(lock: Mapping[str, Any]) -> list[str]:
    """Names of packages whose archive is no wheel: to build one, pip needs an index for the tools that build it."""
    return [name for name, (_, file, _) in locked(lock).items() if not file.endswith(".whl")]


def requirements(lock: Mapping[str, Any], names: Iterable[str]) -> str:
    """The lines of a requirements file that takes these packages by their digests and nothing else."""
    known = locked(lock)
    return "".join(f"{name}=={known[name][0]} --hash=sha256:{known[name][2]}\n" for name in names)


def keep(
    lock: Mapping[str, Any],
    python: Path,
    cache: Path,
    log: TextIO,
    log_file: Path,
    *,
    wheels: str | None,
    side: str,
    on_event: OnEvent,
) -> Result[list[str]]:
    """Fetch what is missing with the pip of the environment `python`; the names that were fetched.

    Errors: TS611 to TS617. Raises OSError, and KeyboardInterrupt after Ctrl-C.
    """
    names = missing(lock, cache)
    if not names:
        return Result([])
    (cache / FOLDER).mkdir(parents=True, exist_ok=True)
    _forget(cache / FOLDER)
    on_event({"event": "doing", "what": f"keeping the archives of torch {lock['torch']}", "side": side})
    with tempfile.TemporaryDirectory(dir=cache / FOLDER, prefix=".fetching-") as work:
        wanted, fetched = Path(work) / "requirements.txt", Path(work) / "fetched"
        wanted.write_text(requirements(lock, names), encoding="utf-8")
        fetched.mkdir()
        argv = [str(python), "-I", "-m", "pip", "download", "--no-input", "--progress-bar", "off"]
        argv += ["--disable-pip-version-check", "--no-deps", "--require-hashes", "--dest", str(fetched)]
        argv += ["--extra-index-url", wheels] if wheels else []
        done = pip.logged(
            [*argv, "--requirement", str(wanted)],
            log,
            hold=None,
            temporary=Path(work),
            side=side,
            on_event=on_event,
        )
        if not done.ok:
            return Result(None, (pip.failure(done, "an archive of the lock", None, log_file, None),))
        for archive in fetched.iterdir():
            _place(archive, cache)
    left = missing(lock, cache)
    if left:
        what = f"pip fetched no archive of {', '.join(left)} that is the one in the lock"
        return Result(None, (Diagnostic("TS617", what, hint=f"read {log_file}"),))
    return Result(names)


def _place(archive: Path, cache: Path) -> None:
    """Move an archive to the folder of its digest. Where another process was faster, its archive stays."""
    target = place(cache, file_digest(archive))
    target.mkdir(exist_ok=True)
    os.replace(archive, target / archive.name)


def _forget(folder: Path) -> None:
    """Remove what a fetch that was killed has left half done."""
    for scrap in folder.glob(".fetching-*"):
        if time.time() - scrap.stat().st_mtime > STALE_S:
            shutil.rmtree(scrap, ignore_errors=True)
