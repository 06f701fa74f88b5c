"""The command line's surface: exit codes, formats, imports, and no traceback whatever the input."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import user

from torchspec.cli.exits import MEANING, Exit, for_decision
from torchspec.cli.output import FORMATS, render_all
from torchspec.core.codes import CODES
from torchspec.core.diagnostics import Diagnostic, Severity, Span

HEAVY = ("torch", "weasyprint", "git", "pyhanko", "scipy", "numpy")


def torchspec(*words: str, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    done = user.torchspec(*words, cwd=cwd, env=extra)
    assert done.returncode != Exit.BUG, done.stderr
    return done


def test_every_exit_code_is_explained() -> None:
    assert set(MEANING) == set(Exit)
    assert len({int(e) for e in Exit}) == len(Exit)


@pytest.mark.parametrize("decision", ["adopt", "isolate", "defer", "rollback"])
def test_an_exploratory_run_never_ends_with_the_code_for_adopted(decision: str) -> None:
    assert for_decision(decision, confirmatory=False) != Exit.ADOPT
    assert (for_decision(decision, confirmatory=True) == Exit.ADOPT) is (decision == "adopt")


DIAGNOSTIC = Diagnostic(
    "TS201",
    "unknown word `a,b:c%` <&>\nnext",
    Span("x y.tspec", 2, 3, 2, 7),
    hint="write `d`",
)


@pytest.mark.parametrize("form", FORMATS)
def test_each_format_carries_code_place_and_message(form: str) -> None:
    text = render_all([DIAGNOSTIC], {"x y.tspec": "a\n  wxyz\n"}, form, color=False, target="x y.tspec", version="1")
    assert "TS201" in text
    assert "x y.tspec" in text
    if form == "json":
        value = json.loads(text)["diagnostics"][0]
        assert value["span"] == {"file": "x y.tspec", "line": 2, "column": 3, "end_line": 2, "end_column": 7}
        assert value["message"] == DIAGNOSTIC.message
    if form == "sarif":
        result = json.loads(text)["runs"][0]["results"][0]
        assert result["locations"][0]["physicalLocation"]["region"]["startColumn"] == 3
        assert result["level"] == "error"
    if form == "junit":
        suite = ET.fromstring(text)
        assert suite.get("failures") == "1"
        failure = suite.find("testcase/failure")
        assert failure is not None
        assert failure.get("message") == DIAGNOSTIC.message
    if form == "github":
        assert text.startswith("::error file=x y.tspec,line=2,col=3")
        assert "\n" not in text


def test_a_warning_is_no_failure_in_junit() -> None:
    warning = Diagnostic("TS233", "no caveat", severity=Severity.WARNING)
    suite = ET.fromstring(render_all([warning], {}, "junit", color=False, target="x", version="1"))
    assert suite.get("failures") == "0"


@pytest.mark.parametrize("words", [("--version",), ("--help",), ("check", "specs/quickstart.tspec")])
def test_light_commands_import_nothing_heavy(words: tuple[str, ...], repository: Path) -> None:
    program = (
        "import sys\nfrom torchspec.cli import main\n"
        f"try:\n    main({list(words)!r})\nexcept SystemExit:\n    pass\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr.splitlines()[-1] == "[]"


def test_compile_imports_git_and_nothing_heavier(repository: Path, tmp_path: Path) -> None:
    program = (
        "import sys\nfrom torchspec.cli import main\n"
        f"main(['compile', 'specs/quickstart.tspec', '--out', {str(tmp_path)!r}])\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr.splitlines()[-1] == "['git']"


def spec_with(repository: Path, folder: Path, change: tuple[str, str]) -> Path:
    """The quickstart with one place changed, in a folder of its own."""
    text = (repository / "specs" / "quickstart.tspec").read_text(encoding="utf-8")
    assert change[0] in text
    (folder / "quickstart").mkdir()
    code = (repository / "specs" / "quickstart" / "reranker.py").read_text(encoding="utf-8")
    (folder / "quickstart" / "reranker.py").write_text(code, encoding="utf-8")
    path = folder / "quickstart.tspec"
    path.write_text(text.replace(*change, 1), encoding="utf-8")
    return path


WRONG = {
    "a syntax error": (("gates       training\n", "gates       training }\n"), "quickstart.tspec:"),
    "an unknown workload kind": (("kind        attention", "kind        atention"), "attention"),
    "a misspelled metric": (("latency.p50 ", "latency.p5O "), "latency.p50"),
    "a unit that does not fit": (("growth <= 5 %     sees 10 %  else isolate", "growth <= 5 ms     else isolate"), ":"),
    "an entry file that is missing": (("reranker.py:build", "rerankers.py:build"), "rerankers.py"),
    "a limit nothing can cross": (("growth <= 10 %    else defer", "growth <= 10000000 %    else defer"), ":"),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_specs_get_a_place_a_reason_and_exit_2(name: str, repository: Path, tmp_path: Path) -> None:
    change, said = WRONG[name]
    spec = spec_with(repository, tmp_path, change)
    for command in ("check", "compile"):
        done = torchspec(command, spec.name, cwd=tmp_path)
        assert done.returncode == Exit.SPEC, done.stderr
        assert "error[TS" in done.stderr
        assert said in done.stderr
        assert "--> quickstart.tspec:" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00t", b"\x00", "tspec 1\n\u202e".encode(), b"{" * 5000])
def test_no_bytes_make_it_break(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.tspec").write_bytes(data)
    done = torchspec("check", "x.tspec", cwd=tmp_path)
    assert done.returncode == Exit.SPEC
    assert "error[TS" in done.stderr


@pytest.mark.parametrize("command", ["run", "judge", "memo"])
def test_run_without_compile_says_what_to_do(command: str, tmp_path: Path) -> None:
    done = torchspec(command, cwd=tmp_path)
    assert done.returncode == Exit.MACHINE
    assert "torchspec compile SPEC" in done.stderr


def test_a_plan_edited_by_hand_is_refused(repository: Path, tmp_path: Path) -> None:
    spec = spec_with(repository, tmp_path, ("seed        1234", "seed        1235"))
    assert torchspec("compile", spec.name, cwd=tmp_path).returncode == Exit.ADOPT
    plan = tmp_path / "out" / "quickstart" / "plan.json"
    plan.write_text(plan.read_text(encoding="utf-8").replace('"value": 0.05', '"value": 0.5', 1), encoding="utf-8")
    done = torchspec("run", cwd=tmp_path)
    assert done.returncode == Exit.MACHINE
    assert "plan.json was changed after it was compiled" in done.stderr


def test_a_torch_that_does_not_exist_and_an_interpreter_that_is_gone(repository: Path, tmp_path: Path) -> None:
    spec = spec_with(
        repository, tmp_path, ('baseline torch "2.13.0"', 'baseline torch "2.13.0"  python "gone/bin/python"')
    )
    assert torchspec("compile", spec.name, cwd=tmp_path).returncode == Exit.ADOPT
    done = torchspec("run", cwd=tmp_path, TORCHSPEC_CACHE=str(tmp_path / "cache"), PIP_NO_INDEX="1", PIP_FIND_LINKS="")
    assert done.returncode == Exit.MACHINE
    assert "gone/bin/python" in done.stderr
    assert "error[TS6" in done.stderr
    assert "--> quickstart.tspec:" in done.stderr


def test_same_spec_same_bytes_elsewhere_and_under_another_hash_seed(repository: Path, tmp_path: Path) -> None:
    seen = []
    for seed, name in (("0", "one"), ("4711", "two")):
        folder = tmp_path / name
        folder.mkdir()
        spec = spec_with(repository, folder, ("seed        1234", "seed        1236"))
        assert torchspec("compile", spec.name, cwd=folder, PYTHONHASHSEED=seed).returncode == Exit.ADOPT
        out = folder / "out" / "quickstart"
        seen.append({p.name: p.read_bytes() for p in (out / "plan.json", out / "harness" / "cpu.py")})
    assert seen[0] == seen[1]
    assert len(seen[0]) == 2


def test_help_and_completion_know_every_command(tmp_path: Path) -> None:
    shown = torchspec("--help", cwd=tmp_path).stdout
    for shell in ("bash", "zsh", "fish"):
        script = torchspec("completion", shell, cwd=tmp_path).stdout
        for command in ("check", "compile", "run", "verify", "ingest"):
            assert command in shown
            assert command in script
    done = subprocess.run(
        ["bash", "-n"], input=torchspec("completion", "bash", cwd=tmp_path).stdout, text=True, check=False
    )
    assert done.returncode == 0


def test_every_code_that_is_used_is_explained(repository: Path) -> None:
    sources = (repository / "torchspec").rglob("*.py")
    used = {code for path in sources for code in re.findall(r'"(TS[0-9]{3})"', path.read_text(encoding="utf-8"))}
    assert len(used) > 100
    assert used - set(CODES) == set()


@pytest.mark.parametrize(
    ("word", "hint"), [("chek", "did you mean `torchspec check`?"), ("zzzzzz", "`torchspec --help` lists the commands")]
)
def test_a_misspelled_command_is_answered_with_the_one_meant(word: str, hint: str, tmp_path: Path) -> None:
    done = torchspec(word, cwd=tmp_path)
    assert done.returncode == Exit.SPEC
    assert done.stderr == f"torchspec: there is no command '{word}'; {hint}\n"


def test_a_folder_is_not_a_spec(tmp_path: Path) -> None:
    done = torchspec("check", ".", cwd=tmp_path)
    assert done.returncode == Exit.SPEC
    assert "is a folder, not a file" in done.stderr + done.stdout
    assert "name a .tspec file in it" in done.stderr + done.stdout


def test_one_cell_is_one_cell(tmp_path: Path) -> None:
    assert torchspec("init", "a.tspec", cwd=tmp_path).returncode == 0
    done = torchspec("compile", "a.tspec", cwd=tmp_path)
    assert "a.tspec: 1 cell, 8 gate lines, on cpu" in done.stdout
    shown = torchspec("explain", "decisions", "a.tspec", cwd=tmp_path).stdout
    assert "rollback rehearsal within 10 min" in shown
