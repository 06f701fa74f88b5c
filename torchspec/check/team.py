"""What a team's file holds, as far as its text tells: its names and the parameters of its functions, held against what
a workload gives them.

Reads the syntax and never runs it. What cannot be seen there (a class, a decorated function, a name that is bound
twice) the harness asks the function itself.
"""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from typing import NamedTuple

from torchspec.catalog import Metric, WorkloadKind
from torchspec.check.spec import AxisDecl, EntryDecl, TeamFile, TeamFunction, WorkloadDecl
from torchspec.check.structure import Context
from torchspec.core.diagnostics import Span

#: What the harness gives to whoever asks for it; `data` where the workload names a slice.
OWN = ("dtype", "data", "seed", "device")
#: Axes that the work need not ask for: it is converted to the one, and started as many times as the other says.
APART = ("dtype", "ranks")


def read(data: bytes) -> TeamFile:
    """What the file's top level binds, and the parameters of its plain functions. Never raises."""
    finder = _Bound()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            finder.visit(ast.parse(data))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return TeamFile(None, {})
    names = Counter(one.name for one in finder.found)
    plain = [one.node for one in finder.found if names[one.name] == 1]
    functions = {
        node.name: _parameters(node.args)
        for node in plain
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.decorator_list
    }
    hidden = "*" in names or "__getattr__" in names
    return TeamFile(None if hidden else frozenset(names), functions)


class _One(NamedTuple):
    name: str
    node: ast.AST


class _Bound(ast.NodeVisitor):
    """Names that a file's top level binds, in its branches too; of its functions and classes only what is `global`."""

    def __init__(self) -> None:
        self.found: list[_One] = []

    def _named(self, name: str | None, node: ast.AST) -> None:
        if name is not None:
            self.found.append(_One(name, node))

    def _scope(self, node: ast.AST) -> None:
        """What a scope of its own binds outside of it."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Global):
                for name in inner.names:
                    self._named(name, inner)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._named(node.name, node)
        self._scope(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._named(node.name, node)
        self._scope(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._named(node.name, node)
        self._scope(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        pass

    def _comprehension(self, node: ast.AST) -> None:
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                self._named(inner.target.id, inner)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_alias(self, node: ast.alias) -> None:
        self._named(node.asname or node.name.partition(".")[0], node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self._named(node.id, node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self._named(node.name, node)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self._named(node.name, node)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self._named(node.rest, node)
        self.generic_visit(node)


def _parameters(found: ast.arguments) -> TeamFunction:
    """Parameters by their names; one that can be given by its place only is needed and never given."""
    positional = [*found.posonlyargs, *found.args]
    without = positional[: len(positional) - len(found.defaults)]
    named = [one for one, usual in zip(found.kwonlyargs, found.kw_defaults, strict=True) if usual is None]
    return TeamFunction(
        takes=tuple(one.arg for one in (*found.args, *found.kwonlyargs)),
        needs=tuple(one.arg for one in (*without, *named)),
        anything=found.kwarg is not None,
    )


def hold(
    context: Context, workload: WorkloadDecl, entry: EntryDecl, kind: WorkloadKind, seen: TeamFile
) -> WorkloadDecl:
    """The workload with what was seen of its file, and without the axes that only the catalog says and its function
    does not take. Mistakes go to `context`: an axis that the function does not take would label the same work twice,
    and a parameter that nobody gives ends every cell."""
    function = seen.functions.get(entry.function)
    if kind.entry_part:
        if function is not None:
            _needs(context, entry.function, function, workload, entry.span, free=False)
        return workload._replace(team=seen)
    said = [axis for axis in workload.axes if axis.span is not None]
    if function is not None:
        _axes(context, entry, function, said)
        if "data" in workload.options and not function.anything and "data" not in function.takes:
            message = f"`{entry.function}` takes no `data`, so that nothing reads the slice of `{workload.name.text}`"
            hint = f"def {entry.function}({', '.join([*function.takes, 'data'])}) gets its lines; or take `data` away"
            context.say("TS245", message, entry.span, hint)
        _needs(context, entry.function, function, workload, entry.span)
    _beside(context, workload, entry, seen)

    def kept(axis: AxisDecl) -> bool:
        taken = function is not None and (function.anything or axis.name in function.takes)
        return axis.span is not None or axis.name in APART or taken

    return workload._replace(team=seen, axes=tuple(axis for axis in workload.axes if kept(axis)))


def _axes(context: Context, entry: EntryDecl, function: TeamFunction, said: list[AxisDecl]) -> None:
    for axis in said:
        if function.anything or axis.name in APART or axis.name in function.takes or axis.span is None:
            continue
        given = [name for name in function.takes if name not in OWN]
        what = f"parameter of `{entry.function}`"
        if axis.name in function.needs:
            message = f"`{entry.function}` takes `{axis.name}` by its place only, and axes are given by name"
            context.say("TS245", message, axis.span, f"take the `/` behind `{axis.name}` away")
            continue
        declare = f"def {entry.function}({', '.join([*function.takes, axis.name])}), or take the line away"
        context.unknown("TS245", what, axis.name, axis.span, given, declare)


def _needs(
    context: Context, name: str, function: TeamFunction, workload: WorkloadDecl, place: Span, free: bool = True
) -> None:
    """Parameters without a default that nothing gives; silent about one that a misspelled axis was meant to be. `free`:
    the shape may hold any axis."""
    axes = {axis.name for axis in workload.axes}
    for need in function.needs:
        if need == "data" and "data" not in workload.options:
            message = f"`{name}` asks for data, and the workload names none"
            context.say("TS246", message, place, 'for example: data "slice.jsonl"  digest "sha256:…"')
        elif need not in OWN and need not in axes and need not in context.meant:
            message = f"`{name}` needs `{need}`, and the workload does not say it"
            way_out = f"write it in `shape`: {need} 512; or give it a default"
            given = f"give it a default; it can ask for {', '.join([*sorted(axes), *OWN])}"
            context.say("TS246", message, place, way_out if free else given)


def _beside(context: Context, workload: WorkloadDecl, entry: EntryDecl, seen: TeamFile) -> None:
    """The old path of the team's work is a function of the same file, or of torch."""
    old = workload.beside
    if old is None:
        return
    name = old.text.rpartition(".")[2]
    function = seen.functions.get(name)
    if function is not None:
        _needs(context, name, function, workload, old.span)
    elif seen.names is not None and name not in seen.names and "." not in old.text:
        context.unknown("TS231", f"old path in {entry.path} named", name, old.span, seen.functions)


def lacks(workload: WorkloadDecl, kind: WorkloadKind, metric: Metric) -> tuple[str, str] | None:
    """(what is missing, the way out) where a metric comes from a function that the team's file does not have."""
    name = metric.team.partition("(")[0]
    entry = workload.entry
    if not name or kind.gives:
        return None
    if entry is None:
        if kind.name in metric.team_alone:
            return None
        what = f"{metric.name} comes from {metric.team} of the team's file, and `{workload.name.text}` has none"
        return what, f'give it one: kind {kind.name} "bench/work.py:build"; or a gate set of its own'
    if workload.team is None or workload.team.names is None or name in workload.team.names:
        return None
    return (
        f"{metric.name} comes from {metric.team}, and {entry.path} has no `{name}`",
        "write it there, or leave it out",
    )
