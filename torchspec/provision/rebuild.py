"""Makes an environment again from its lock: `restore`, and the part of the rollback rehearsal that does so twice.

Once from the archives in the cache, without any index, and once from scratch. What was rebuilt stands in the cache
below `rebuilt/` while the rehearsal uses it, and is gone afterwards; what a killed run left there is swept by the next.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchspec.core.canon import digest
from torchspec.core.diagnostics import Diagnostic, Result
from torchspec.provision import archives, pip
from torchspec.provision.interpreters import find_python, probe
from torchspec.provision.pip import OnEvent
from torchspec.provision.venvs import Bench, os_diagnostic, unlike


@dataclass(frozen=True, slots=True)
class Restored:
    """An environment rebuilt from its lock: where its interpreter is, and how long that took."""

    python: Path
    seconds: float
    log: Path


def restore(
    lock: Mapping[str, Any],
    where: Path,
    *,
    from_scratch: bool,
    cache: Path | None = None,
    wheels: str | None = None,
    log_file: Path | None = None,
    on_event: OnEvent = lambda _: None,
    side: str = "baseline",
) -> Result[Restored]:
    """Rebuild the environment of `lock` in the folder `where` (new or empty), and check that it is the same.

    With `cache`, from the archives kept there and without an index (but for the tools that build a source archive).
    `from_scratch` keeps pip's own cache out of it, so that every archive is fetched again. Each archive must have the
    digest in the lock. An environment that was there already (`origin` "interpreter") is rebuilt by versions alone.
    Errors: TS610, TS612 to TS620. Raises KeyboardInterrupt.
    """
    began = time.monotonic()
    if where.exists() and any(where.iterdir()):
        message = f"`{where}` is not empty, so nothing is restored there"
        return Result(None, (Diagnostic("TS618", message, hint="name a folder that is new or empty"),))
    found = find_python(str(lock["python"]))
    if found.value is None:
        return Result(None, found.diagnostics)
    said = log_file or where / "restore.log"
    try:
        where.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=where, prefix=".tmp-") as work, said.open("a", encoding="utf-8") as log:
            bench = Bench(where / "venv", found.value.path, Path(work), log, said, None, side, on_event)
            if wrong := bench.make_venv(None):
                return Result(None, (wrong,))
            wanted = Path(work) / "requirements.txt"
            wanted.write_text(_wanted(lock), encoding="utf-8")
            on_event({"event": "doing", "what": f"restoring torch {lock['torch']} from its lock", "side": side})
            options = _options(lock, from_scratch, cache, wheels)
            done = bench.pip(*options, "--requirement", str(wanted))
            if not done.ok:
                return Result(None, (pip.failure(done, f"torch {lock['torch']}", None, said, None),))
            probed = probe(bench.python)
            if probed.value is None:
                return Result(None, probed.diagnostics)
    except OSError as error:
        return Result(None, (os_diagnostic(error, "restoring", where),))
    if (odd := unlike(probed.value, lock)) is not None:
        hint = (
            'an interpreter that was there already may hold what no index has; name `torch "…"` and `package`s instead'
        )
        return Result(
            None, (Diagnostic("TS619", f"the restored environment is not the one in the lock: {odd}", hint=hint),)
        )
    return Result(Restored(bench.python, time.monotonic() - began, said))


def _wanted(lock: Mapping[str, Any]) -> str:
    """The lock as a requirements file; with digests, where pip made the environment."""
    if lock["origin"] == "pip":  # what has no digest is what `venv` itself puts there
        return archives.requirements(lock, archives.locked(lock))
    held = lock["packages"].items()
    return "".join(f"{name}=={package['version']}\n" for name, package in held if name != "pip")


def _options(lock: Mapping[str, Any], from_scratch: bool, cache: Path | None, wheels: str | None) -> list[str]:
    # Modules are compiled when they are first imported: compiling all of torch's takes as long as the rest.
    options = ["--no-deps", "--no-compile", *(["--require-hashes"] if lock["origin"] == "pip" else [])]
    options += ["--no-cache-dir"] if from_scratch else []
    if cache is None or from_scratch:
        return [*options, *(["--extra-index-url", wheels] if wheels else [])]
    if not archives.sources(lock):
        options += ["--isolated", "--no-index"]  # neither an index nor what the user's settings name
    for _, _, sha256 in archives.locked(lock).values():
        options += ["--find-links", str(archives.place(cache, sha256))]
    return options


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What the rehearsal of rebuilding showed: the bodies of its steps, and the interpreter that is to be used on.

    `python` is None where the environment could not be rebuilt, or is not torchspec's to rebuild.
    """

    steps: tuple[dict[str, Any], ...]
    python: Path | None


@contextlib.contextmanager
def rehearse(
    lock: Mapping[str, Any], python: Path, cache: Path, *, wheels: str | None, on_event: OnEvent, side: str = "baseline"
) -> Iterator[Rebuilt]:
    """Rebuild the environment of `lock`, which stands at `python`, from the cache's archives and once from scratch.

    The one from the archives stays until the end of the `with`. A failure is a step that did not hold. An interpreter
    that the spec names (`origin` "interpreter") is kept by whoever made it: nothing is rebuilt.
    """
    if lock["origin"] != "pip":
        yield Rebuilt((), None)
        return
    try:
        rebuilt = cache / "rebuilt"
        rebuilt.mkdir(parents=True, exist_ok=True)
        (cache / "logs").mkdir(exist_ok=True)
        _sweep(rebuilt)
        folder = Path(tempfile.mkdtemp(dir=rebuilt, prefix=f"{digest(lock)[:20]}-"))
        held = os.open(folder / "in-use", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(held, fcntl.LOCK_EX)
    except OSError as error:
        body = _step("rebuild.cache", 0.0, {}, os_diagnostic(error, "rebuilding the baseline", cache))
        yield Rebuilt((body,), None)
        return
    try:
        first = _from_cache(lock, python, cache, folder, wheels, on_event, side)
        second = _from_scratch(lock, cache, folder, wheels, on_event, side)
        shutil.rmtree(folder / "scratch", ignore_errors=True)
        there = folder / "cache" / "venv" / "bin" / "python"
        yield Rebuilt((first, second), there if first["ok"] else None)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def _sweep(rebuilt: Path) -> None:
    """Remove what nobody uses any more: whoever rebuilt it has ended without doing so."""
    for folder in rebuilt.iterdir():
        try:
            held = os.open(folder / "in-use", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue  # just being made, or just gone
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(held)


def _log(cache: Path, lock: Mapping[str, Any], way: str) -> Path:
    """A new log of pip's words; the one of the time before is gone."""
    path = cache / "logs" / f"{digest(lock)[:20]}-rebuild-{way}.log"
    path.unlink(missing_ok=True)
    return path


def _step(name: str, seconds: float, detail: dict[str, Any], wrong: Diagnostic | None) -> dict[str, Any]:
    """The body of a `rehearsal.step` record, but for its candidate."""
    error = wrong.message if wrong is not None else None
    return {"step": name, "cell": None, "ok": wrong is None, "seconds": seconds, "detail": detail, "error": error}


def _from_cache(
    lock: Mapping[str, Any], python: Path, cache: Path, folder: Path, wheels: str | None, on_event: OnEvent, side: str
) -> dict[str, Any]:
    """From the archives that lie in the cache; those of an environment older than this habit are fetched first."""
    said = _log(cache, lock, "cache")
    began = time.monotonic()
    detail: dict[str, Any] = {"archives": len(archives.locked(lock)), "index": "not used"}
    try:
        with said.open("a", encoding="utf-8") as log:
            kept = archives.keep(lock, python, cache, log, said, wheels=wheels, side=side, on_event=on_event)
    except OSError as error:
        wrong = os_diagnostic(error, "keeping archives", cache)
        return _step("rebuild.cache", time.monotonic() - began, detail, wrong)
    if kept.value is None:
        return _step("rebuild.cache", time.monotonic() - began, detail, kept.diagnostics[0])
    if kept.value:
        detail["fetched_before"] = len(kept.value)
    if built := archives.sources(lock):
        detail["index"] = f"used for the tools that build {', '.join(built)}"
    began = time.monotonic()
    made = restore(lock, folder / "cache", from_scratch=False, cache=cache, log_file=said, on_event=on_event, side=side)
    return _step("rebuild.cache", time.monotonic() - began, detail, None if made.ok else made.diagnostics[0])


def _from_scratch(
    lock: Mapping[str, Any], cache: Path, folder: Path, wheels: str | None, on_event: OnEvent, side: str
) -> dict[str, Any]:
    said = _log(cache, lock, "scratch")
    began = time.monotonic()
    where = folder / "scratch"
    made = restore(lock, where, from_scratch=True, wheels=wheels, log_file=said, on_event=on_event, side=side)
    detail = {"archives": len(archives.locked(lock)), "index": "every archive fetched again"}
    return _step("rebuild.scratch", time.monotonic() - began, detail, None if made.ok else made.diagnostics[0])
