"""Environments made by pip from a small index of stand-in wheels: locked, cached, never half."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from torchspec import provision
from torchspec.core.canon import file_digest
from torchspec.model.codec import to_json
from torchspec.provision.cache import MARKER

ROOT = Path(__file__).resolve().parents[3]
OWN = f"{sys.version_info.major}.{sys.version_info.minor}"


def ensure(plan, side, tmp_path, events=None):
    return provision.ensure(
        plan,
        side,
        spec_folder=tmp_path,
        cache=tmp_path / "cache",
        on_event=(events if events is not None else []).append,
    )


def whole(cache: Path) -> list[Path]:
    return sorted(cache.glob(f"environments/*/{MARKER}"))


def test_both_sides_are_made_locked_and_reused(tmp_path, index, make_plan, fake_wheel):
    plan = make_plan({"torch": "2.13.0"}, {"torch": "2.14.1"}, ("numpy==2.4.0",), OWN)
    events: list = []
    first = ensure(plan, plan.baseline, tmp_path, events)
    assert first.ok, first.diagnostics
    baseline = first.value
    assert any("installing torch 2.13.0" in event["what"] for event in events)
    assert baseline.python == baseline.python.parent.parent / "bin" / "python"
    entry = baseline.lock["packages"]["torch"]
    wheel = index / "torch-2.13.0-py3-none-any.whl"
    assert entry == {"version": "2.13.0", "file": wheel.name, "sha256": file_digest(wheel)}
    assert set(baseline.lock["packages"]) >= {"torch", "dep", "pinned", "numpy"}
    assert baseline.lock["torch_brings"] == {
        "dep": {"specifiers": [">=1"], "pinned": False},
        "pinned": {"specifiers": ["==1.0"], "pinned": True},
    }
    assert not baseline.reused

    fake_wheel(index, "dep", "2.0")  # time goes by, and a newer version appears
    candidate = ensure(plan, plan.candidates[0], tmp_path).value
    assert candidate.lock["packages"]["dep"]["version"] == "1.0"
    assert candidate.lock["packages"]["pinned"]["version"] == "2.0"
    assert provision.differences(baseline.lock, candidate.lock) == ()

    again = ensure(plan, plan.baseline, tmp_path).value
    assert (again.reused, again.digest, again.lock) == (True, baseline.digest, baseline.lock)
    assert again.seconds < 5


def test_neither_lock_nor_log_nor_marker_says_where_the_index_is(tmp_path, index, make_plan, monkeypatch):
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://user:pa55w0rd@index.invalid/simple")
    plan = make_plan({"torch": "2.13.0"})
    made = ensure(plan, plan.baseline, tmp_path)
    assert made.ok, made.diagnostics
    written = [p.read_text() for p in (tmp_path / "cache").rglob("*.log")]
    written += [json.dumps(made.value.lock), whole(tmp_path / "cache")[0].read_text()]
    assert len(written) == 3
    for text in written:
        assert "torch-2.13.0-py3-none-any.whl" in text
        assert "secret-index" not in text
        assert "pa55w0rd" not in text
        assert "index.invalid" not in text


def test_a_constraint_that_the_candidate_cannot_keep_is_given_up(tmp_path, index, make_plan, fake_wheel):
    fake_wheel(index, "dep", "3.0")
    plan = make_plan({"torch": "2.13.0"}, {"torch": "2.15.0"}, ("dep<2",))
    made = ensure(plan, plan.candidates[0], tmp_path)
    assert [d.code for d in made.diagnostics] == ["TS613"]  # dep<2 was asked for by the spec itself
    fake_wheel(index, "dep", "1.5")
    (index / "dep-3.0-py3-none-any.whl").rename(index / "hidden")
    plan = make_plan({"torch": "2.13.0"}, {"torch": "2.15.0"})
    baseline = ensure(plan, plan.baseline, tmp_path).value
    (index / "hidden").rename(index / "dep-3.0-py3-none-any.whl")
    candidate = ensure(plan, plan.candidates[0], tmp_path)
    assert candidate.ok, candidate.diagnostics
    assert baseline.lock["packages"]["dep"]["version"] == "1.5"
    assert candidate.value.lock["packages"]["dep"]["version"] == "3.0"
    assert provision.differences(baseline.lock, candidate.value.lock) == ()  # 2.15.0 itself asks for dep>=3


def test_a_version_that_does_not_exist(tmp_path, index, make_plan):
    plan = make_plan({"torch": "9.9.9"})
    made = ensure(plan, plan.baseline, tmp_path)
    (found,) = made.diagnostics
    assert made.value is None
    assert (found.code, found.span.line, found.span.column) == ("TS611", 3, 11)
    assert "no torch 9.9.9 is available" in found.message
    assert found.hint == "nearest: 2.14.1, 2.15.0"
    assert any(note.startswith("pip: ERROR") for note in found.notes)
    log = Path(found.notes[-1].removeprefix("pip's whole output is in "))
    assert "9.9.9" in log.read_text()
    assert not list((tmp_path / "cache" / "environments").glob("[!.]*/"))


@pytest.mark.parametrize(
    ("packages", "code"),
    [
        (("numpy==99",), "TS612"),
        (("absent==1",), "TS612"),
        (("--index-url=https://x",), "TS612"),
    ],
)
def test_a_package_that_does_not_exist(tmp_path, index, make_plan, packages, code):
    plan = make_plan({"torch": "2.13.0"}, packages=packages)
    assert [d.code for d in ensure(plan, plan.baseline, tmp_path).diagnostics] == [code]


def test_torch_must_be_a_version(tmp_path, index, make_plan):
    plan = make_plan({"torch": "--pre"})
    assert [d.code for d in ensure(plan, plan.baseline, tmp_path).diagnostics] == ["TS611"]


def test_no_network(tmp_path, index, make_plan, monkeypatch):
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    plan = make_plan({"torch": "2.13.0"})
    (found,) = ensure(plan, plan.baseline, tmp_path).diagnostics
    assert found.code == "TS614"
    assert "127.0.0.1:9" not in str(found)


def test_no_such_python(tmp_path, index, make_plan):
    plan = make_plan({"torch": "2.13.0"}, python="3.99")
    (found,) = ensure(plan, plan.baseline, tmp_path).diagnostics
    assert found.code == "TS610"
    assert "python3.99" in found.hint


def test_a_cache_that_cannot_be_written(tmp_path, index, make_plan):
    (tmp_path / "cache").write_text("a file")
    plan = make_plan({"torch": "2.13.0"})
    assert [d.code for d in ensure(plan, plan.baseline, tmp_path).diagnostics] == ["TS618"]


def test_a_full_disk(tmp_path, index, make_plan):
    if os.geteuid() != 0:
        pytest.skip("mounting a tiny file system needs root")
    cache = tmp_path / "cache"
    cache.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(cache)], capture_output=True)
    if mounted.returncode:
        pytest.skip("this machine does not let root mount a file system")
    try:
        plan = make_plan({"torch": "2.13.0"})
        made = ensure(plan, plan.baseline, tmp_path)
        assert [d.code for d in made.diagnostics] == ["TS615"]
        assert whole(cache) == []
        assert not list((cache / "environments").glob("[!.]*/"))
    finally:
        subprocess.run(["umount", str(cache)], check=True)


def test_an_environment_that_was_changed_is_made_again(tmp_path, index, make_plan):
    plan = make_plan({"torch": "2.13.0"})
    first = ensure(plan, plan.baseline, tmp_path).value
    pip = [str(first.python), "-m", "pip", "install", "-q", "numpy"]
    subprocess.run(pip, check=True, capture_output=True)
    again = ensure(plan, plan.baseline, tmp_path).value
    assert (again.reused, again.digest) == (False, first.digest)
    marker = whole(tmp_path / "cache")[0]
    marker.write_text(marker.read_text().replace("2.13.0", "2.13.1"))
    assert not ensure(plan, plan.baseline, tmp_path).value.reused


RUN = """
import json, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from torchspec import provision
from torchspec.model.codec import from_json
from torchspec.model.plan import Plan
plan = from_json(Plan, json.loads(Path({plan!r}).read_text()))
folder, cache = Path({folder!r}), Path({cache!r})
made = provision.ensure(plan, plan.baseline, spec_folder=folder, cache=cache, on_event=lambda event: None)
print(made.ok, made.value.reused, made.value.digest)
"""


def script(tmp_path: Path, plan) -> list[str]:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(to_json(plan)))
    words = {"root": str(ROOT), "plan": str(file), "folder": str(tmp_path), "cache": str(tmp_path / "cache")}
    return [sys.executable, "-c", RUN.format(**words)]


def children_of(cache: Path) -> list[int]:
    """Processes whose command line names the cache."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(cache).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def kill_at_random(tmp_path, index, make_plan, fake_wheel, times: int, seed: int) -> None:
    for number in range(8):
        fake_wheel(index, f"filler{number}", "1.0", payload=200_000)
    plan = make_plan({"torch": "2.13.0"}, packages=tuple(f"filler{n}==1.0" for n in range(8)))
    argv, cache = script(tmp_path, plan), tmp_path / "cache"
    began = time.monotonic()
    out = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    took = time.monotonic() - began
    assert out[:2] == ["True", "False"]
    chance = random.Random(seed)
    for _ in range(times):
        for marker in whole(cache):
            marker.unlink()
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.0, took))
        process.send_signal(chance.choice([signal.SIGKILL, signal.SIGINT, signal.SIGTERM]))
        process.wait(timeout=60)
        end = time.monotonic() + 10
        while children_of(cache) and time.monotonic() < end:
            time.sleep(0.05)
        assert children_of(cache) == []
        again = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
        assert (again[0], again[2]) == ("True", out[2])
        assert again[1] == "False" or len(whole(cache)) == 1
        assert not list((cache / "environments").glob(".scrap-*"))


def test_killed_at_any_moment_nothing_half_is_taken_for_whole(tmp_path, index, make_plan, fake_wheel):
    kill_at_random(tmp_path, index, make_plan, fake_wheel, times=2, seed=1)


@pytest.mark.slow
def test_killed_at_many_moments(tmp_path, index, make_plan, fake_wheel):
    kill_at_random(tmp_path, index, make_plan, fake_wheel, times=4, seed=2)


def test_two_at_once_make_one_environment(tmp_path, index, make_plan):
    argv = script(tmp_path, make_plan({"torch": "2.13.0"}))
    pair = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    out = [process.communicate(timeout=120)[0].split() for process in pair]
    assert sorted(words[1] for words in out) == ["False", "True"]
    assert out[0][2] == out[1][2]
    assert multiprocessing.active_children() == []
