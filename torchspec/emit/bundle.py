"""Joins the harness's modules, the plan and the team's files into one file a backend.

Starting from the command line, the backend's device and the work files that its cells need, it follows the modules'
imports of each other, puts them in order, drops these imports, and gathers those of the standard library at the top.
The same plan gives the same bytes.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchspec.core.canon import digest
from torchspec.emit.data import backend_plan, json_lines, literal
from torchspec.model.codec import to_json
from torchspec.model.plan import Backend, Plan, TeamFile

HARNESS = Path(__file__).resolve().parent.parent / "harness"
RULE = "# " + "-" * 118


class BundleError(Exception):
    """A harness module breaks a rule of the island; a mistake of ours or of a plugin's author, never of a spec's."""


@dataclass(frozen=True, slots=True)
class Module:
    """One harness module, taken apart: what it imports and what remains."""

    name: str
    doc: str
    needs: tuple[str, ...]
    imports: tuple[str, ...]
    names: tuple[str, ...]
    body: str


def _imported(node: ast.ImportFrom, name: str) -> str:
    if node.level != 1 or node.module is None or "." in node.module:
        raise BundleError(f"{name}: only `from .module import name` is understood, on line {node.lineno}")
    if any(alias.asname for alias in node.names):
        raise BundleError(f"{name}: an import from a harness module may not be renamed, on line {node.lineno}")
    return node.module


def take_apart(name: str, source: str) -> Module:
    """Parses one module. Raises BundleError where it breaks a rule."""
    tree = ast.parse(source, filename=f"{name}.py", feature_version=(3, 10))
    lines = source.splitlines()
    dropped: set[int] = set()
    needs: list[str] = []
    imports: list[str] = []
    names: list[str] = []
    for place, node in enumerate(tree.body):
        span = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        if isinstance(node, ast.ImportFrom) and node.level:
            needs.append(_imported(node, name))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            if not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
                imports.append(ast.unparse(node))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and place == 0:
            pass
        else:
            if isinstance(node, ast.If):
                raise BundleError(f"{name}: no statement `if` at the top level, on line {node.lineno}")
            names += _defined(node)
            continue
        dropped.update(span)
    for inner in ast.walk(tree):
        if isinstance(inner, ast.ImportFrom) and inner.level and inner not in tree.body:
            raise BundleError(f"{name}: imports of harness modules stand at the top, not on line {inner.lineno}")
    kept = "\n".join("" if number in dropped else line for number, line in enumerate(lines, 1))
    return Module(name, ast.get_docstring(tree) or "", tuple(needs), tuple(imports), tuple(names), kept.strip("\n"))


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


@cache
def _shipped(name: str) -> Module:
    return take_apart(name, (HARNESS / f"{name}.py").read_text(encoding="utf-8"))


def _ordered(roots: list[str], extra: Mapping[str, Module]) -> list[Module]:
    """Every module that the roots need, each after those that it needs."""
    done: dict[str, Module] = {}
    pending: list[str] = []

    def visit(name: str) -> None:
        if name in done:
            return
        if name in pending:
            raise BundleError(f"the harness modules {' -> '.join([*pending, name])} import each other in a circle")
        pending.append(name)
        module = extra[name] if name in extra else _shipped(name)
        for need in module.needs:
            visit(need)
        pending.pop()
        done[name] = module

    for root in roots:
        visit(root)
    _unique(list(done.values()))
    return list(done.values())


def _unique(modules: list[Module]) -> None:
    seen: dict[str, str] = {}
    for module in modules:
        for name in module.names:
            if name == "__all__":  # says what a module passes on, and nothing in the joined file
                continue
            if name in seen and seen[name] != module.name:
                raise BundleError(f"{seen[name]} and {module.name} both define {name}; they share one file")
            seen[name] = module.name


def _import_block(modules: list[Module]) -> list[str]:
    plain: set[str] = set()
    named: dict[str, set[str]] = {}
    for line in (line for module in modules for line in module.imports):
        node = ast.parse(line).body[0]
        if isinstance(node, ast.ImportFrom):
            named.setdefault(node.module or "", set()).update(ast.unparse(alias) for alias in node.names)
        elif isinstance(node, ast.Import):
            plain.update(f"import {ast.unparse(alias)}" for alias in node.names)
    froms = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(named.items())]
    return [*sorted(plain), *froms]


def _section(title: str, text: str) -> list[str]:
    comments = [f"# {line}".rstrip() for line in text.splitlines()]
    return ["", "", RULE, f"# {title}", "#", *comments, RULE, "", ""]


def _header(plan: Plan, backend: Backend, plan_digest: str) -> list[str]:
    name = plan.name if all(c.isalnum() or c in "._-" for c in plan.name) and plan.name.isascii() else "(see PLAN_TEXT)"
    return [
        f'"""A torchspec harness: measures two versions of torch side by side on the backend {backend.name}.',
        "",
        f"Plan {name}, sha256 {plan_digest},",
        f"compiled by torchspec {plan.compiler}. Needs Python 3.10 or later and nothing else; the interpreters that it",
        "measures have torch. It was written by a program: change the spec and compile it again instead.",
        "",
        f"    python {backend.name}.py probe      what this machine is, as JSON",
        f"    python {backend.name}.py cells      what it would run",
        f"    python {backend.name}.py pair --baseline A/bin/python --candidate B/bin/python --evidence DIR",
        '"""',
    ]


def _tail(plan: Plan, backend: Backend, plan_digest: str, files: tuple[TeamFile, ...]) -> list[str]:
    out = _section("The plan, as this backend needs it, and the team's files: data, never code", "")
    out += ["# fmt: off", f"PLAN_DIGEST = {plan_digest!a}", "PLAN_TEXT = ("]
    out += [*literal([line + "\n" for line in json_lines(backend_plan(plan, backend))], "    "), ")"]
    out += ["TEAM_FILES = {"]
    for file in sorted(files, key=lambda one: one.path):
        lines = literal(file.text.splitlines(keepends=True), "        ")
        out += [f"    {file.path!a}: (", *lines, "    ),"]
    out += ["}", "# fmt: on", "", "", 'if __name__ == "__main__":']
    out += ["    SOURCE = Path(__file__).resolve()"]
    out += [
        "    raise SystemExit(main(sys.argv[1:], Embedded(json.loads(PLAN_TEXT), TEAM_FILES, PLAN_DIGEST, SOURCE)))"
    ]
    return out


def harness_source(plan: Plan, backend: Backend, works: Mapping[str, Path] | None = None) -> str:
    """The text of one backend's harness. `works` names work files of plugins: kind -> path."""
    plan_digest = digest(to_json(plan))
    used = {cell.workload for cell in plan.cells if cell.backend == backend.name}
    kinds = sorted({row.kind for row in plan.workloads if row.name in used})
    extra = {
        f"work_{kind}": take_apart(f"work_{kind}", path.read_text("utf-8")) for kind, path in (works or {}).items()
    }
    work_files = [
        f"work_{kind}" for kind in kinds if f"work_{kind}" in extra or (HARNESS / f"work_{kind}.py").is_file()
    ]
    devices = [f"device_{name}" for name in dict.fromkeys([backend.name, *([backend.over] if backend.over else [])])]
    modules = _ordered([*devices, *work_files, "command"], extra)
    out = [*_header(plan, backend, plan_digest), "", "from __future__ import annotations", "", *_import_block(modules)]
    for module in modules:
        out += [*_section(module.name, module.doc), module.body]
    out += _tail(plan, backend, plan_digest, plan.files)
    return "\n".join(out) + "\n"


def emit(plan: Plan, works: Mapping[str, Path] | None = None) -> dict[str, str]:
    """Backend name -> harness source text, for every declared backend. Deterministic."""
    return {backend.name: harness_source(plan, backend, works) for backend in plan.backends}
