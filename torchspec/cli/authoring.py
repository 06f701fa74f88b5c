"""The author's commands: check, compile, fmt, explain, diff, schema, docs, init, completion."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from torchspec.cli.common import exit_for, parameters, show
from torchspec.cli.exits import MEANING, Exit
from torchspec.cli.output import say, wants_color, width_of
from torchspec.core.diagnostics import Diagnostic


def check(arguments: Namespace) -> int:
    """All mistakes of all files, in one go. Past `pipeline`, whose values cost more than the check itself."""
    from torchspec.check import check_spec

    params = parameters(arguments.set)
    if params is None:
        return Exit.SPEC
    worst = Exit.ADOPT
    found: list[Diagnostic] = []
    sources: dict[str, str] = {}
    for name in arguments.specs:
        checked = check_spec(Path(name), params)
        found += checked.diagnostics
        sources.update(checked.sources)
        worst = max(worst, exit_for(checked.diagnostics))
    show(found, sources, arguments, target=arguments.specs[0], form=arguments.format)
    if arguments.format == "text" and not any(d.is_error for d in found):
        count = len(arguments.specs)
        say(f"{arguments.specs[0] if count == 1 else f'{count} specs'}: no mistakes" if not found else "no errors")
    return worst


def compile(arguments: Namespace) -> int:
    """Plan, lock and one harness file a backend, below out/."""
    from torchspec import pipeline
    from torchspec.decide_words import counted

    params = parameters(arguments.set)
    if params is None:
        return Exit.SPEC
    outcome = pipeline.compile_spec(Path(arguments.spec), Path(arguments.out), params)
    show(outcome.diagnostics, outcome.sources, arguments, target=arguments.spec, form=arguments.format)
    if outcome.compiled is None:
        return exit_for(outcome.diagnostics) or Exit.MACHINE
    compiled = outcome.compiled
    stamp = None
    if arguments.timestamp:
        stamped = pipeline.stamp(compiled, arguments.timestamp)
        show(stamped.diagnostics, {}, arguments)
        if stamped.value is None:
            return exit_for(stamped.diagnostics) or Exit.MACHINE
        stamp = stamped.value
    if arguments.format != "text":
        return Exit.ADOPT
    plan = compiled.plan
    backends = ", ".join(b.name for b in plan.backends)
    say(f"{arguments.spec}: {counted(len(plan.cells), 'cell')}, {counted(len(plan.gates), 'gate line')}, on {backends}")
    say(f"  plan     {compiled.folder / 'plan.json'}  {compiled.plan_digest[:16]}")
    say(f"  lock     {compiled.folder / 'lock.json'}")
    for backend in plan.backends:
        count = sum(cell.backend == backend.name for cell in plan.cells)
        say(f"  harness  {compiled.folder / 'harness' / (backend.name + '.py')}  {counted(count, 'cell')}")
    git = compiled.lock.git
    if git.commit is None:
        say(f"  git      {git.reason}: a run from here is exploratory")
    elif not git.spec_committed:
        say(f"  git      {git.commit[:7]}, but the spec differs from what is committed: a run from here is exploratory")
    else:
        say(f"  git      {git.commit[:7]}: the spec is committed")
    if stamp is not None:
        say(f"  stamped  {stamp.at} by {stamp.authority}: the plan was there by then")
    return Exit.ADOPT


def fmt(arguments: Namespace) -> int:
    """Canonical text; with --check or --diff nothing is written."""
    import difflib

    from torchspec.core.files import write_whole
    from torchspec.syntax.format import format_source

    changed: list[str] = []
    found: list[Diagnostic] = []
    sources: dict[str, str] = {}
    for name in arguments.specs:
        path = Path(name)
        try:
            text = path.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            say(f"torchspec: {name} cannot be read: {error}", sys.stderr)
            return Exit.SPEC
        result = format_source(text, name)
        found += result.diagnostics
        sources[name] = text
        if result.value is None or result.value == text:
            continue
        changed.append(name)
        if arguments.diff:
            lines = difflib.unified_diff(text.splitlines(), result.value.splitlines(), name, name, lineterm="")
            say("\n".join(lines))
        elif arguments.check:
            say(f"{name}: would be reformatted")
        else:
            write_whole(path, result.value.encode(), mode=path.stat().st_mode & 0o777)
            say(f"{name}: reformatted")
    show(found, sources, arguments)
    if any(d.is_error for d in found):
        return Exit.SPEC
    return Exit.SPEC if changed and (arguments.check or arguments.diff) else Exit.ADOPT


def explain(arguments: Namespace) -> int:
    """A code, a metric, a workload, a backend; or the decisions and gates of a spec."""
    from torchspec import explain as explaining
    from torchspec import pipeline
    from torchspec.explain_words import WIDTH

    what = arguments.what
    columns = max(40, min(width_of(sys.stdout) or WIDTH, WIDTH))
    if what == "exits":
        say("\n".join(f"{int(code):>4}  {meaning}" for code, meaning in MEANING.items()))
        return Exit.ADOPT
    if what in ("decisions", "gates"):
        if not arguments.spec:
            say(f"torchspec: `explain {what}` needs a spec: torchspec explain {what} SPEC", sys.stderr)
            return Exit.SPEC
        params = parameters(arguments.set)
        if params is None:
            return Exit.SPEC
        lowered = pipeline.lower_spec(Path(arguments.spec), params)
        show(lowered.diagnostics, lowered.sources, arguments, target=arguments.spec)
        if lowered.plan is None:
            return exit_for(lowered.diagnostics)
        explainer = explaining.explain_decisions if what == "decisions" else explaining.explain_gates
        say(explainer(lowered.plan, columns=columns))
        return Exit.ADOPT
    from torchspec.cli import manual

    result = explaining.explain_word(what, words=manual.word_texts(), columns=columns)
    show(result.diagnostics, {}, arguments)
    if result.value is None:
        return Exit.SPEC
    say(result.value)
    return Exit.ADOPT


def diff(arguments: Namespace) -> int:
    """What a reviewer must know about a changed spec."""
    import json

    from torchspec import pipeline, specdiff
    from torchspec.model.codec import to_json

    outcome = pipeline.diff_specs(arguments.old, arguments.new)
    show(outcome.diagnostics, outcome.sources, arguments)
    if outcome.changes is None:
        return Exit.SPEC
    if arguments.json:
        say(json.dumps([to_json(c) for c in outcome.changes], indent=1, ensure_ascii=False))
    else:
        say(specdiff.render(outcome.changes, wants_color(sys.stdout, arguments.color)))
    weaker = any(c.severity == "weaker" for c in outcome.changes)
    return Exit.SPEC if weaker and arguments.exit_code else Exit.ADOPT


def schema(arguments: Namespace) -> int:
    """A published JSON Schema, or the list of their names."""
    import json

    from torchspec.model.codec import SCHEMAS, load_schema

    names = sorted(path.name.removesuffix(".schema.json") for path in SCHEMAS.glob("*.schema.json"))
    if arguments.name is None:
        say("\n".join(names))
        return Exit.ADOPT
    if arguments.name not in names:
        say(f"torchspec: there is no schema {arguments.name!r}; there are: {', '.join(names)}", sys.stderr)
        return Exit.SPEC
    say(json.dumps(load_schema(arguments.name), indent=2, ensure_ascii=False))
    return Exit.ADOPT


def docs(arguments: Namespace) -> int:
    """The reference, from the tables."""
    from torchspec.cli import manual

    topics = manual.topics()
    if arguments.topic is not None and arguments.topic not in topics:
        say(f"torchspec: there is no topic {arguments.topic!r}; there are: {', '.join(topics)}", sys.stderr)
        return Exit.SPEC
    chosen = [arguments.topic] if arguments.topic else list(topics)
    say("\n\n".join(topics[name]() for name in chosen))
    return Exit.ADOPT


def init(arguments: Namespace) -> int:
    """A commented starting spec that passes `check`."""
    from torchspec import starter
    from torchspec.core.files import write_whole

    path = Path(arguments.spec)
    if path.exists():
        say(f"torchspec: {path} is there already; give another name, or move it away", sys.stderr)
        return Exit.SPEC
    result = starter.starting_spec(
        baseline=arguments.baseline,
        candidate=arguments.candidate,
        owner=arguments.owner,
        backends=tuple(arguments.backend),
        entry=arguments.entry,
    )
    show(result.diagnostics, {}, arguments)
    if result.value is None:
        return Exit.SPEC
    try:
        write_whole(path, result.value.encode())
    except OSError as error:
        say(f"torchspec: {path} cannot be written: {error.strerror}", sys.stderr)
        return Exit.MACHINE
    say(f"{path}: written. Next: fill in what is marked, then `torchspec check {path}`")
    return Exit.ADOPT


def completion(arguments: Namespace) -> int:
    """A completion script, from the parser itself."""
    from torchspec.cli.completion import script

    say(script(arguments.shell))
    return Exit.ADOPT
