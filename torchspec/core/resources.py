"""Where the package's data files are: `grammar/`, `templates/` and `specs/`.

In a checkout they stand at the top level; in a wheel they are under `torchspec/_data`. Nothing else may look for them.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent


def data_folder(name: str) -> Path:
    """The folder `name` ("grammar", "templates", "specs") of this installation."""
    installed = PACKAGE / "_data" / name
    return installed if installed.is_dir() else PACKAGE.parent / name
