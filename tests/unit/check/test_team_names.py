"""Which names a team's file binds at its top level, held against what Python itself binds there."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from torchspec.check.team import read

SOURCES = {
    "functions, classes and plain names": """
def build(): ...
class A: ...
x = 1
a, (b, *c) = 1, (2, 3)
d: int = 4
""",
    "branches and loops": """
if True:
    def build(): ...
for i in (1,):
    pass
else:
    j = 1
with open(__file__) as f:
    pass
""",
    "imports": """
import os.path
import json as j
from math import pi, e as euler
""",
    "global in a function": """
def set_up():
    global build, other
    def build(): ...
    other = 1
set_up()
""",
    "global in a class": """
class A:
    global inner
    inner = 1
""",
    "global in a function within a function": """
def a():
    def b():
        global deep
        deep = 1
    b()
a()
""",
    "match": """
match [1, 2, {"a": 3, "b": 4}]:
    case [x, *_, {"a": y, **rest}] as whole:
        pass
match [1, 2]:
    case [int(), *tail]:
        pass
""",
    "a comprehension's own names": """
n = [i for i in range(3)]
m = {k: v for k, v in {}.items()}
s = {q for q in ()}
""",
    "an assignment within a comprehension": """
n = [(last := i) for i in range(3)]
g = list((seen := i) for i in range(3))
""",
    "a lambda's names": "f = lambda z: [w for w in z]",
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_the_names_are_those_that_python_binds(source: str, tmp_path: Path) -> None:
    path = tmp_path / "team.py"
    path.write_text(source, encoding="utf-8")
    held = runpy.run_path(str(path))
    assert read(source.encode()).names == {name for name in held if not name.startswith("__")}


@pytest.mark.parametrize(
    "again",
    [
        "def late():\n    global build\n    build = 1\n",
        "match 1:\n    case build:\n        pass\n",
        "[build := i for i in ()]\n",
    ],
)
def test_a_function_whose_name_is_bound_again_is_not_taken_by_its_text(again: str) -> None:
    plain = "def build(x): ...\n"
    assert "build" in read(plain.encode()).functions
    assert "build" not in read((plain + again).encode()).functions


@pytest.mark.parametrize("source", ["from os import *\n", "def __getattr__(name): ...\n", "def broken(:\n"])
def test_names_that_the_text_does_not_tell_are_unknown(source: str) -> None:
    assert read(source.encode()).names is None
