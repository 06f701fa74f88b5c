"""The control: what both sides share, the two sides themselves, and the backends."""

from __future__ import annotations

import re

from torchspec.check.bind import Bound
from torchspec.check.spec import BackendDecl, FrozenDecl, OptionalDecl, SideDecl, Text
from torchspec.check.structure import Context, after, walk
from torchspec.check.values import text_of, texts
from torchspec.core.diagnostics import Label, Span
from torchspec.syntax.ast import Value

_PYTHON = re.compile(r"3\.[0-9]{1,2}")
_VERSION = r"[0-9A-Za-z][0-9A-Za-z.!+_-]*"
_PINNED = re.compile(rf"([A-Za-z0-9][A-Za-z0-9._-]*)(\[[A-Za-z0-9._,-]+\])?\s*===?\s*{_VERSION}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Variables that the harness sets itself, or that would let one side load other code.
_RESERVED = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "PATH", "HOME")
SETTINGS: dict[str, tuple[str, ...]] = {
    "float32_matmul_precision": ("highest", "high", "medium"),
    "deterministic_algorithms": ("on", "off"),
    "cudnn_benchmark": ("on", "off"),
    "allow_tf32": ("on", "off"),
    "allow_reduced_precision_reduction": ("on", "off"),
    "flush_denormal": ("on", "off"),
}
COMPILE: dict[str, tuple[str, ...]] = {
    "mode": ("default", "reduce_overhead", "max_autotune", "max_autotune_no_cudagraphs"),
    "cache": ("cold", "warm"),
    "backend": ("inductor", "eager", "aot_eager", "cudagraphs"),
    "dynamic": ("on", "off"),
    "fullgraph": ("on", "off"),
}
DEFAULT_SEED = 0


def frozen(context: Context, bound: Bound | None) -> FrozenDecl:
    if bound is None:
        return FrozenDecl(None, (), (), (), DEFAULT_SEED, None, None)
    inner = walk(context, "frozen", bound.statement.block or ())
    python = inner["python"][0].one() if "python" in inner else None
    if python is not None and not _PYTHON.fullmatch(python.text):
        hint = 'for example: python "3.12"'
        context.say("TS407", f'"{python.text}" is not a Python version of major and minor', python.span, hint)
    packages: list[Text] = []
    names: dict[str, Span] = {}
    for line in inner.get("package", []):
        for value in line.many():
            _package(context, value, packages, names)
    env: dict[str, tuple[Text, Text]] = {}
    for line in inner.get("env", []):
        variable, setting = line.one(0), line.one(1)
        if variable is None or setting is None:
            continue
        if not _VARIABLE.fullmatch(variable.text) or variable.text in _RESERVED or "\0" in setting.text:
            hint = "both sides must load the same code from the same places"
            context.say("TS405", f"`{variable.text}` cannot be set by a spec", variable.span, hint)
        elif variable.text in env:
            label = (Label(env[variable.text][0].span, "first here"),)
            context.say("TS219", f"`{variable.text}` is set twice", variable.span, "keep one", label)
        else:
            env[variable.text] = (Text(variable.text, variable.span), Text(setting.text, setting.span))
    seed = inner["seed"][0].one() if "seed" in inner else None
    seed_number = seed.number if seed is not None and isinstance(seed.number, int) else DEFAULT_SEED
    if seed is not None and seed_number >= 2**63:
        context.say("TS408", "a seed is below 2**63", seed.span)
    power = inner["power"][0].one() if "power" in inner else None
    if power is not None and power.text not in ("mains", "battery"):
        context.unknown("TS409", "power", power.text, power.span, ("mains", "battery"))
    return FrozenDecl(
        text_of(python),
        tuple(packages),
        tuple(env.values()),
        _settings(context, inner),
        seed_number,
        text_of(power),
        bound.statement.span,
    )


def _package(context: Context, value: Value, packages: list[Text], names: dict[str, Span]) -> None:
    match = _PINNED.fullmatch(value.text)
    if match is None:
        name = re.split(r"[^A-Za-z0-9._-]", value.text)[0] or "numpy"
        hint = f'for example: package "{name}==1.2.3"'
        context.say("TS403", f'"{value.text}" does not pin one version', value.span, hint)
        return
    name = re.sub(r"[-_.]+", "-", match[1]).lower()
    if name == "torch":
        hint = "its version stands on the lines `baseline` and `candidate`"
        context.say("TS404", "torch is what differs, so it cannot be frozen", value.span, hint)
    elif name in names:
        label = (Label(names[name], "first here"),)
        context.say("TS219", f"{name} is pinned twice", value.span, "keep one", label)
    else:
        names[name] = value.span
        packages.append(Text(value.text, value.span))


def _settings(context: Context, inner: dict[str, list[Bound]]) -> tuple[tuple[Text, Text], ...]:
    made: dict[str, tuple[Text, Text]] = {}
    for line in inner.get("setting", []):
        name, value = line.one(0), line.one(1)
        if name is None or value is None:
            continue
        if name.text not in SETTINGS:
            context.unknown("TS409", "setting", name.text, name.span, SETTINGS)
        elif value.text not in SETTINGS[name.text]:
            context.unknown("TS409", f"value of {name.text}", value.text, value.span, SETTINGS[name.text])
        elif name.text in made:
            context.say("TS219", f"`{name.text}` is set twice", name.span, "keep one")
        else:
            made[name.text] = (Text(name.text, name.span), Text(value.text, value.span))
    for line in inner.get("compile", []):
        for key, allowed in COMPILE.items():
            value = line.one(name=key)
            if value is None:
                continue
            if value.text not in allowed:
                context.unknown("TS409", f"value of `compile {key}`", value.text, value.span, allowed)
            else:
                place = line.places[key]
                made[f"compile.{key}"] = (Text(f"compile.{key}", place), Text(value.text, value.span))
    return tuple(made.values())


def sides(context: Context, bound: Bound) -> list[SideDecl]:
    """The versions of one `baseline` or `candidate` line."""
    role = bound.row.word
    torch, python, path = bound.many(name="torch"), bound.many(name="python"), bound.many(name="path")
    may_differ = texts(bound.many(name="may_differ"))
    line = bound.statement.span
    if torch and python and (len(torch) > 1 or len(python) > 1):
        message = "with an interpreter, one version of torch stands on a line"
        context.say("TS401", message, python[0].span, f"begin another line with `{role}`")
        return []
    if not torch and not python:
        if not bound.broken and not {"torch", "python"} & bound.places.keys():
            hint = f'for example: {role} torch "2.14.1", or {role} python "envs/new/bin/python"'
            context.say("TS401", f"`{role}` says neither `torch` nor `python`", after(bound.statement), hint)
        return []
    for value in (*torch, *python):
        if not value.text.strip() or "\0" in value.text:
            context.say("TS401", "this is empty", value.span)
            return []
    one_path = text_of(path[0]) if path else None
    if torch and python:
        version, interpreter = torch[0], python[0]
        return [SideDecl(role, text_of(version), text_of(interpreter), one_path, may_differ, interpreter.span, line)]
    main = torch or python
    made: list[SideDecl] = []
    for value in main:
        for way in path or (None,):
            span = value.span if len(main) > 1 or way is None else way.span
            as_torch, as_python = (text_of(value), None) if torch else (None, text_of(value))
            made.append(SideDecl(role, as_torch, as_python, text_of(way), may_differ, span, line))
    return made


def backends(
    context: Context, lines: list[Bound], optional_lines: list[Bound]
) -> tuple[list[BackendDecl], list[OptionalDecl]]:
    catalog = context.catalog
    named: dict[str, Bound] = {}
    for line in lines:
        name = line.one()
        if name is None:
            continue
        if name.text not in catalog.backends:
            context.unknown("TS211", "backend", name.text, name.span, catalog.backends)
            context.misnamed.add(name.text)
        elif name.text in named:
            first = named[name.text].statement.span
            context.say(
                "TS219", f"backend `{name.text}` stands twice", name.span, "keep one", (Label(first, "first here"),)
            )
        else:
            named[name.text] = line
    optionals: dict[str, OptionalDecl] = {}
    for line in optional_lines:
        name = line.one()
        if name is None:
            continue
        if name.text in context.misnamed:
            continue
        if name.text not in named:
            context.unknown("TS211", "declared backend", name.text, name.span, named)
        elif name.text in optionals:
            context.say("TS219", f"`optional {name.text}` stands twice", name.span, "keep one")
        else:
            because, until = text_of(line.one(name="because")), text_of(line.one(name="until"))
            optionals[name.text] = OptionalDecl(Text(name.text, name.span), because, until, line.statement.span)
    made = [_backend(context, name, line, optionals.get(name)) for name, line in named.items()]
    return made, list(optionals.values())


def _backend(context: Context, name: str, line: Bound, optional: OptionalDecl | None) -> BackendDecl:
    row = context.catalog.backends[name]
    threads = line.one(name="threads")
    over, launcher = line.one(name="over"), line.one(name="launcher")
    ranks: list[int] = []
    for value in line.many(name="ranks"):
        if value.number == 0 or value.number in ranks:
            message = (
                f"{value.text} stands twice in this list" if value.number else "`ranks` are whole numbers from 1 on"
            )
            context.say("TS308", message, value.span)
        elif isinstance(value.number, int):
            ranks.append(value.number)
    if threads is not None and threads.number == 0:
        context.say("TS308", "`threads` is a whole number from 1 on", threads.span)
    for word in ("over", "ranks", "launcher"):
        if word in line.places and not row.over:
            context.say("TS202", f"`{word}` belongs to backend distributed", line.places[word], "remove it")
    if row.over:
        if over is None and "over" not in line.places and not line.broken:
            hint = "for example: backend distributed  over cpu  ranks 1, 2"
            context.say("TS203", f"`{name}` lacks `over` and a device backend", after(line.statement), hint)
        elif over is not None and over.text not in row.over:
            context.unknown("TS211", "backend to be distributed over", over.text, over.span, row.over)
        if launcher is not None and launcher.text not in row.launchers:
            context.unknown("TS211", "launcher", launcher.text, launcher.span, row.launchers)
    named = line.one()
    return BackendDecl(
        Text(name, named.span if named else line.statement.span),
        threads.number if threads is not None and isinstance(threads.number, int) else None,
        texts(line.many(name="hardware")),
        text_of(line.one(name="wheels")),
        text_of(over),
        tuple(ranks) or ((1,) if row.over else ()),
        text_of(launcher) or (Text(row.launchers[0], line.statement.span) if row.launchers else None),
        optional,
        line.statement.span,
    )
