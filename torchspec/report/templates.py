"""A team's own templates and logo: kept beside the memo that they drew, so that it can be drawn again.

Must not render. What a template may do is the sandbox's to say (`render`); this says what went wrong, as a diagnostic.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torchspec.core.diagnostics import Diagnostic

FOLDER = "templates"  # in the memo folder
_KINDS = frozenset({".j2", ".css", ".js", ".svg", ".png"})
_HINT = "begin with a copy of the package's memo.html.j2, memo.md.j2 or memo.css; logo.svg or logo.png may stand alone"


def missing(folder: Path | None) -> Diagnostic | None:
    """TS825 where the named folder is none, or holds nothing that would be used."""
    if folder is None:
        return None
    if not folder.is_dir():
        return Diagnostic("TS825", f"the folder of templates {folder} is not there", hint=_HINT)
    if not _files(folder):
        return Diagnostic("TS825", f"{folder} holds no template and no logo", hint=_HINT)
    return None


class Broken(Exception):
    """A template that cannot be used. `diagnostic` (TS825) is what the user is told."""

    def __init__(self, error: Exception) -> None:
        self.diagnostic = _told(error)
        super().__init__(self.diagnostic.message)


@contextmanager
def told() -> Iterator[None]:
    """Turns what a template raises while inside into Broken. (Jinja's "not found" is an OSError too.)"""
    from jinja2 import TemplateError

    try:
        yield
    except (TemplateError, UnicodeDecodeError) as error:
        raise Broken(error) from error


def _told(error: Exception) -> Diagnostic:
    """What a template raised, with its name and line where they are known."""
    name = getattr(error, "filename", None) or getattr(error, "name", None)
    line = getattr(error, "lineno", None)
    where = f" ({Path(str(name)).name}{f', line {line}' if line else ''})" if name else ""
    said = " ".join(str(error).split())[:200] or type(error).__name__
    return Diagnostic("TS825", f"a template of the team's cannot be used{where}: {said}", hint=_HINT)


def keep(folder: Path, memo: Path) -> None:
    """Copies what can be used of `folder` into the memo's folder. Raises OSError."""
    for path in _files(folder):
        place = memo / FOLDER / path.relative_to(folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)


def kept(memo: Path) -> Path | None:
    """The templates that a memo was drawn with; None for the package's."""
    folder = memo / FOLDER
    return folder if folder.is_dir() else None


def _files(folder: Path) -> list[Path]:
    return [p for p in sorted(folder.rglob("*")) if p.suffix in _KINDS and p.is_file() and not p.is_symlink()]
