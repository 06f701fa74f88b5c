"""What can go wrong with a ledger, as an exception that carries its diagnostic."""

from __future__ import annotations

import errno
from pathlib import Path

from torchspec.core.diagnostics import Diagnostic, Span

WORDS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file may not grow any further (a limit on file sizes)",
    errno.EIO: "the disk reports an input/output error",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ENOENT: "it is not there",
    errno.EISDIR: "it is a folder",
    errno.ENOTDIR: "a part of its path is not a folder",
}

HINTS = {
    errno.ENOSPC: "free some space, then run again: it goes on where it stopped",
    errno.EDQUOT: "free some space, then run again: it goes on where it stopped",
    errno.EFBIG: "raise the limit (`ulimit -f`), then run again: it goes on where it stopped",
    errno.EACCES: "make the folder writable for you, or choose another one",
    errno.EPERM: "make the folder writable for you, or choose another one",
    errno.EROFS: "choose a folder on a file system that can be written",
}


class LedgerError(Exception):
    """A ledger that cannot be written, read or trusted. `diagnostic` is what the user is told."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def reason(error: OSError) -> str:
    """An operating system's error in a few plain words."""
    return WORDS.get(error.errno or 0) or (error.strerror or type(error).__name__)


def cannot(doing: str, path: Path, error: OSError) -> LedgerError:
    """The error for an OSError met while `doing` ("write", "read") `path`."""
    code = "TS702" if doing == "read" else "TS701"
    hint = HINTS.get(error.errno or 0, "look at the folder, then run again")
    return LedgerError(Diagnostic(code, f"cannot {doing} `{path}`: {reason(error)}", hint=hint))


def at_line(path: Path, line: int) -> Span:
    """The place of a whole line (1-based) of the ledger."""
    return Span(str(path), line, 1, line, 1)
