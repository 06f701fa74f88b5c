"""Holds an emitted harness against its promises: its imports, the Python that reads it, no path of a machine."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable

#: A quoted text that is a place on somebody's machine. Files of the system that every Linux has are none.
MACHINE_PATH = re.compile(r"^(/(home|root|Users|tmp|work|mnt|opt|srv)/|[A-Za-z]:\\)")
FLOOR = (3, 10)


#: Packages that a harness looks for and, where they are missing, records as unavailable.
LOOKED_FOR = frozenset({"torchcomms"})


def imported_roots(node: ast.AST) -> list[str]:
    """The first names of what an import statement imports; "." for a module of the harness."""
    if isinstance(node, ast.Import):
        return [alias.name.split(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return ["." if node.level else (node.module or "").split(".")[0]]
    return []


def problems(source: str, allowed: Iterable[str] = ()) -> list[str]:
    """What is wrong with a harness file, in the order of its lines; empty when nothing is.

    `allowed` names packages beside the standard library and torch that a workload kind declares; those in LOOKED_FOR
    are always allowed.
    """
    try:
        tree = ast.parse(source, feature_version=FLOOR)
    except SyntaxError as error:
        return [f"line {error.lineno}: Python {FLOOR[0]}.{FLOOR[1]} cannot read it: {error.msg}"]
    known = {"torch", *allowed, *LOOKED_FOR, *sys.stdlib_module_names}
    found: list[tuple[int, str]] = []
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        for root in imported_roots(node):
            if root not in known:
                found.append((node.lineno, f"imports {root}, which is neither torch nor the standard library"))  # type: ignore[attr-defined]
            if root == "torch" and id(node) in top:
                found.append((node.lineno, "imports torch at the top; a driver has none"))  # type: ignore[attr-defined]
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and MACHINE_PATH.match(node.value):
            found.append((node.lineno, f"names a place on a machine: {node.value[:60]}"))
    return [f"line {line}: {what}" for line, what in sorted(set(found))]
