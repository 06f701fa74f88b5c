"""The recipe for a new kind of work, followed to the letter: row, file and spec come from the page itself."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

from user import ROOT, small_spec, torchspec

PAGE = (ROOT / "torchspec" / "docs" / "recipes.md").read_text(encoding="utf-8")


def blocks() -> list[str]:
    """The three indented texts of the section `A workload`: row, file, spec."""
    section = PAGE.split("\n## A workload\n")[1].split("\n**In a package")[0]
    found = re.findall(r"(?m)(?:^ {7}.*\n|^\n(?= {7}|\n {7}))+", section)
    return [textwrap.dedent(text).strip("\n") for text in found if text.strip()]


def test_the_recipe_takes_less_than_forty_lines() -> None:
    parts = blocks()
    assert len(parts) == 3, parts
    assert sum(len([line for line in text.splitlines() if line.strip()]) for text in parts) < 40


def test_the_recipe_gives_a_kind_that_reaches_the_emitted_file(tmp_path: Path) -> None:
    row, file, spec = blocks()
    for source in sorted((ROOT / "torchspec").rglob("*")):
        if source.is_file() and "__pycache__" not in source.parts:
            place = tmp_path / source.relative_to(ROOT)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(source.read_bytes())
    for folder in ("grammar", "templates"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    table = tmp_path / "torchspec" / "catalog" / "workloads.py"
    text = table.read_text(encoding="utf-8")
    opening = "WORKLOADS: tuple[WorkloadKind, ...] = (\n"
    assert opening in text
    table.write_text(text.replace(opening, opening + textwrap.indent(row, "    ") + "\n"), encoding="utf-8")
    (tmp_path / "torchspec" / "harness" / "work_rms_norm.py").write_text(file + "\n", encoding="utf-8")
    (tmp_path / "norms.tspec").write_text(small_spec("backend cpu\n" + spec), encoding="utf-8")
    given = torchspec("compile", "norms.tspec", "--out", "out", cwd=tmp_path, root=tmp_path)
    assert given.returncode == 0, given.stdout + given.stderr
    plan = json.loads((tmp_path / "out" / "norms" / "plan.json").read_text(encoding="utf-8"))
    cells = [(cell["mode"], cell["axes"]["tokens"]) for cell in plan["cells"]]
    assert cells == [("infer", 64), ("infer", 128), ("train", 64), ("train", 128)]
    harness = (tmp_path / "out" / "norms" / "harness" / "cpu.py").read_text(encoding="utf-8")
    assert "class RmsNorm(Work):" in harness
