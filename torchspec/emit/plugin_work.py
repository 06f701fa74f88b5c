"""Holds the harness file of a plugin's kind of work against the rules of the island, before anything is joined.

What breaks a rule here is a mistake of the plugin's author, told with its line; the same in a file of ours is a bug.
Must not import or run the file.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from torchspec.core.diagnostics import Diagnostic, Span
from torchspec.emit.bundle import HARNESS, BundleError, take_apart
from torchspec.emit.verify import LOOKED_FOR, imported_roots

RECIPE = "`torchspec docs` and recipes.md show such a file whole"


def problems(works: Mapping[str, Path], kinds: Iterable[str]) -> list[Diagnostic]:
    """What is wrong with the files of those kinds (kind -> path) that a plan uses."""
    return [found for kind in sorted(set(kinds) & set(works)) for found in _of_file(kind, works[kind])]


def clash(error: BundleError, works: Mapping[str, Path], kinds: Iterable[str]) -> Diagnostic | None:
    """A failure to join the files as the plugin's, where its file is named in it; None where it is ours."""
    for kind in sorted(set(kinds) & set(works)):
        if f"work_{kind}" in str(error):
            return _wrong(works[kind], 1, str(error), "give it another name: all modules share one file")
    return None


def _wrong(path: Path, line: int, why: str, hint: str = RECIPE) -> Diagnostic:
    place = Span(str(path), line, 1, line, 2)
    return Diagnostic("TS903", f"the plugin's `{path.name}` cannot go into a harness: {why}", place, hint=hint)


def _of_file(kind: str, path: Path) -> list[Diagnostic]:
    try:
        source = path.read_text("utf-8")
        module = take_apart(f"work_{kind}", source)
        tree = ast.parse(source)
    except OSError as error:
        return [Diagnostic("TS903", f"the plugin's `{path.name}` cannot be read: {error.strerror}", hint=RECIPE)]
    except UnicodeDecodeError:
        return [_wrong(path, 1, "it is not UTF-8")]
    except SyntaxError as error:
        return [_wrong(path, error.lineno or 1, f"{error.msg} (Python 3.10 must read it too)")]
    except BundleError as error:
        line = re.search(r"on line (\d+)$", str(error))
        return [_wrong(path, int(line[1]) if line else 1, str(error).partition(": ")[2])]
    found = [
        _wrong(path, 1, f"there is no harness module `{need}`", "from .work import Work")
        for need in module.needs
        if not (HARNESS / f"{need}.py").is_file()
    ]
    found += _imports(path, tree)
    if not _has_kind(tree, kind):
        why = f'no class in it says `kind = "{kind}"`'
        found.append(_wrong(path, 1, why, f'class …(Work):  kind = "{kind}"'))
    return found


def _imports(path: Path, tree: ast.Module) -> list[Diagnostic]:
    known = {"torch", ".", *LOOKED_FOR, *sys.stdlib_module_names}
    found = []
    for node in ast.walk(tree):
        for root in imported_roots(node):
            line = getattr(node, "lineno", 1)
            if root not in known:
                hint = "it runs with the standard library and torch alone"
                found.append(_wrong(path, line, f"it imports {root}", hint))
            elif root == "torch" and node in tree.body:
                why = "it imports torch at the top, and the driver that reads it has none"
                found.append(_wrong(path, line, why, "import torch inside the methods"))
    return found


def _has_kind(tree: ast.Module, kind: str) -> bool:
    for one in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for line in one.body:
            target = line.targets[0] if isinstance(line, ast.Assign) else getattr(line, "target", None)
            value = getattr(line, "value", None)
            if isinstance(target, ast.Name) and target.id == "kind" and getattr(value, "value", None) == kind:
                return True
    return False
