"""The language under any input: the formatter changes nothing, the compiler never raises, text travels as data.

`TORCHSPEC_FUZZ=n` runs n times as many examples.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchspec import catalog, lower
from torchspec.check import check_spec
from torchspec.core.canon import canonical
from torchspec.core.diagnostics import render_text
from torchspec.core.resources import data_folder
from torchspec.model.codec import schema_errors, to_json
from torchspec.syntax.format import CLAUSES, format_source
from torchspec.syntax.parse import parse_source

MORE = int(os.environ.get("TORCHSPEC_FUZZ", "1"))
FEW = settings(max_examples=40 * MORE, deadline=None, suppress_health_check=list(HealthCheck))
SPECS = [p.read_text(encoding="utf-8") for p in sorted(data_folder("specs").glob("*.tspec"))]

words = st.one_of(
    st.sampled_from(["workload", "on", "gates", "seq", "latency.p50", "growth", "else", *sorted(CLAUSES)]),
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}(\.[a-z_][a-z0-9_]{0,4})?", fullmatch=True),
).filter(lambda w: w not in RESERVED)
RESERVED = set(catalog.load().units)
strings = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp"]), max_size=12).map(
    lambda t: '"' + t.replace("\\", "\\\\").replace('"', '\\"') + '"'
)
numbers = st.one_of(
    st.integers(-(10**6), 10**12).map(str),
    st.sampled_from(["0.5", "1e-4", "2.5E3", "3 %", "64 KiB", "45 tokens/s", "1.2 x"]),
)
values = st.one_of(words, strings, numbers, st.sampled_from(["<=", ">=", "$longest", "2026-12-01"]))
lists = st.lists(values, min_size=1, max_size=3).map(", ".join)
space = st.sampled_from([" ", "  ", "     "])
comments = st.one_of(
    st.just(""),
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp"]), max_size=10).map(lambda t: "#" + t),
)


@st.composite
def statement_lines(draw: st.DrawFn, depth: int = 0) -> list[str]:
    """A statement as lines, in any layout that the language allows."""
    indent = " " * draw(st.integers(0, 6))
    parts = [draw(words), *draw(st.lists(lists, max_size=5))]
    text = indent + draw(space).join(parts)
    comment = draw(comments)
    if depth < 3 and draw(st.integers(0, 3)) == 0:
        inner = [line for block in draw(st.lists(statement_lines(depth + 1), max_size=3)) for line in block]
        return [f"{text} {{ {comment}", *inner, indent + "} " + draw(comments)]
    return [f"{text} {comment}", *[""] * draw(st.integers(0, 2)), *([draw(comments)] if draw(st.booleans()) else [])]


specs = st.lists(statement_lines(), min_size=1, max_size=5).map(
    lambda s: "\n".join(line for b in s for line in b) + "\n"
)


@FEW
@given(specs)
def test_formatting_keeps_the_meaning_and_every_comment(text: str) -> None:
    before = parse_source(text.encode(), "t")
    assert before.diagnostics == ()
    formatted = format_source(text, "t").value
    assert formatted is not None
    assert parse_source(formatted.encode(), "t").value == before.value
    assert format_source(formatted, "t").value == formatted
    assert _comments(formatted) == _comments(text)


def _comments(text: str) -> list[str]:
    from torchspec.syntax.lexical import tokens

    return [t.text.rstrip() for t in tokens(text) if t.type == "COMMENT"]


@FEW
@given(statement_lines(), statement_lines())
def test_a_lines_form_depends_on_that_line_alone(one: list[str], other: list[str]) -> None:
    alone = format_source("\n".join(one) + "\n", "t").value
    together = format_source("\n".join([*one, *other]) + "\n", "t").value
    assert alone is not None
    assert together is not None
    assert together.startswith(alone.rstrip("\n"))


def _never_raises(data: bytes, folder: Path) -> None:
    path = folder / "fuzz.tspec"
    path.write_bytes(data)
    start = time.process_time()
    result = check_spec(path)
    for diagnostic in result.diagnostics[:20]:
        assert "\x1b" not in render_text(diagnostic, result.sources)
    assert time.process_time() - start < 2 * max(1.0, len(data) / 100_000)
    assert (result.spec is None) == any(d.is_error for d in result.diagnostics)
    format_source(data.decode("utf-8", "replace"), "t")


@FEW
@given(data=st.binary(max_size=400))
def test_no_bytes_make_it_raise(data: bytes, tmp_path_factory) -> None:
    _never_raises(data, tmp_path_factory.getbasetemp())


@FEW
@given(text=st.one_of(specs, st.text(max_size=300)))
def test_no_text_makes_it_raise(text: str, tmp_path_factory) -> None:
    _never_raises(b"tspec 1\n" + text.encode("utf-8", "replace"), tmp_path_factory.getbasetemp())


PIECES = [
    "{ {",
    "} {",
    "{",
    "}",
    "\n",
    ",",
    '"',
    "#",
    "<=",
    "%",
    "else",
    "on",
    "$x",
    "0",
    "1e999",
    "∞",
    "‮",
    "x",
    "-1",
    "\t",
    "extends",
    "8" * 50,
]


@FEW
@given(seed=st.integers(0, 2**32))
def test_no_damaged_spec_makes_it_raise(seed: int, tmp_path_factory) -> None:
    chance = random.Random(seed)
    lines = chance.choice(SPECS).split("\n")
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(lines))
        kind = chance.randrange(5)
        if kind == 0:
            lines[at] = ""
        elif kind == 1:
            lines.insert(at, chance.choice(lines))
        elif kind == 2:
            parts = lines[at].split(" ")
            parts[chance.randrange(len(parts))] = chance.choice(PIECES)
            lines[at] = " ".join(parts)
        elif kind == 3:
            place = chance.randint(0, len(lines[at]))
            lines[at] = lines[at][:place] + chance.choice(PIECES) + lines[at][place + chance.randint(0, 2) :]
        else:
            other = chance.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
    _never_raises("\n".join(lines).encode(), tmp_path_factory.getbasetemp())


def _quoted(text: str) -> str:
    """Any text as a string of the language."""
    return '"' + "".join(c if c.isalnum() and c.isascii() else f"\\U{ord(c):08x}" for c in text) + '"'


HOSTILE = [
    "'''",
    '"""',
    "{{ 7*7 }}",
    "{% raw %}",
    "</script>",
    "\0",
    "‮",
    "a\nb",
    "\\",
    "${HOME}",
    "`id`",
    "$(id)",
    "#",
    "\r",
    "é日本",
]


@FEW
@given(text=st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)))
def test_text_reaches_the_plan_as_data(text: str, tmp_path_factory) -> None:
    source = (data_folder("specs") / "laptops.tspec").read_text(encoding="utf-8")
    quoted = _quoted(text)
    source = source.replace('"sparse-lab"', quoted).replace('"unsupported"', quoted)
    source += f"meta {{\n  hostile {quoted}\n}}\n"
    path = tmp_path_factory.getbasetemp() / "hostile.tspec"
    path.write_text(source, encoding="utf-8")
    result = check_spec(path)
    if result.spec is None:  # such as a reason of white space only, which policy refuses
        assert not text.strip()
        return
    plan = lower.lower(result.spec, catalog.load(), "0").value
    assert plan is not None
    assert plan.upgrade.owner == text
    assert plan.exclusions[0].because == text
    assert plan.meta["hostile"] == text
    value = to_json(plan)
    assert schema_errors("plan", value) == []
    canonical(value)
