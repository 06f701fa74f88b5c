"""Each kind of the catalog has its harness file, and each worked example compiles to files that stand alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from torchspec import catalog, pipeline
from torchspec.catalog.workloads import WORKLOADS
from torchspec.emit import bundle, verify
from torchspec.harness import device_distributed, needs

ROOT = Path(__file__).resolve().parents[3]
HARNESS = ROOT / "torchspec" / "harness"
#: Measured over ranks, or elsewhere; the first come with the distributed device.
ELSEWHERE = {"collective", "fsdp2", "ddp", "ingested"}
ALONE = [row.name for row in WORKLOADS if row.name not in ELSEWHERE]


def class_kinds(path: Path) -> set[str]:
    """The kinds that the classes of a harness file name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            for line in node.body:
                if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "kind":
                    found.add(str(ast.literal_eval(line.value)))
    return found


@pytest.mark.parametrize("kind", ALONE)
def test_a_kind_has_a_file_whose_class_names_it(kind: str) -> None:
    assert class_kinds(HARNESS / f"work_{kind}.py") == {kind}


def test_every_metric_of_the_catalog_is_measured_by_a_harness() -> None:
    known = {*needs.KNOWN, *needs.MORE_KNOWN}
    assert device_distributed.Distributed.name == "distributed"  # loading it adds what ranks measure
    left = {name for name in catalog.load().metrics if name not in known}
    assert {name for name in left if not name.startswith(("error.", "determinism."))} == set()


def test_no_two_files_name_one_kind() -> None:
    named = [kind for path in sorted(HARNESS.glob("*.py")) for kind in class_kinds(path) if kind]
    assert sorted(named) == sorted(set(named))


def test_no_two_harness_modules_define_one_name() -> None:
    """They share one emitted file, whichever of them a plan needs."""
    where: dict[str, set[str]] = {}
    for path in sorted(HARNESS.glob("*.py")):
        for name in bundle.take_apart(path.stem, path.read_text()).names:
            where.setdefault(name, set()).add(path.name)
    assert {name: files for name, files in where.items() if len(files) > 1 and name != "__all__"} == {}


@pytest.mark.parametrize("spec", sorted(p.name for p in (ROOT / "specs").glob("*.tspec")))
def test_a_worked_example_compiles_for_each_of_its_backends(spec: str, tmp_path: Path) -> None:
    outcome = pipeline.compile_spec(ROOT / "specs" / spec, tmp_path, {})
    assert outcome.compiled is not None, [d.message for d in outcome.diagnostics if d.is_error]
    for backend in outcome.compiled.plan.backends:
        assert verify.problems(outcome.compiled.harness(backend.name).read_text()) == []


def test_a_gate_that_the_harness_measures_is_in_the_catalog() -> None:
    looks = (HARNESS / "looks.py").read_text()
    names = [n.value for n in ast.walk(ast.parse(looks)) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    asked = {n for n in names if n.startswith(("export.", "checkpoint.", "latency.first"))}
    assert asked
    assert asked <= set(catalog.load().metrics)


#: Words that a workload of any kind may have, and the parameters of a mask.
COMMON = {"model", "tokenizer", "data", "counts", "share", "files"}


def test_every_option_that_the_harness_reads_can_be_said() -> None:
    """`options.get("word")` of a word that no kind has is a limit that nobody can set."""
    known = COMMON | {option[0] for row in WORKLOADS for option in row.options}
    known |= {name for row in WORKLOADS for name in row.mask_parameters}
    read = set()
    for path in sorted(HARNESS.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
                whose = ast.unparse(node.func.value)
                if whose.endswith(("options", "['options']")) and isinstance(node.args[0], ast.Constant):
                    read.add(str(node.args[0].value))
    assert {"steps", "overlap", "transport"} <= read
    assert read - known == set()
