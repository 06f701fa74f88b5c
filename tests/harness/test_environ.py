"""What may be recorded of an environment, and what a worker is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchspec.harness.environ import looks_secret, recorded_environment, worker_environment
from torchspec.harness.supervise import without_secrets

SECRETS = {
    "TORCH_HUB_TOKEN": "abc",
    "PYTORCH_PROXY": "http://user:hunter2@proxy.example:80",
    "NCCL_EXTRA": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "TRITON_NOTE": "password=hunter2",
    "OMP_TOOL": "AKIAIOSFODNN7EXAMPLE",
    "MKL_BLOB": "q8Zr3Vx91LmT0bNc7JkE5yWu2HsD",
    "TORCH_JWT": "eyJhbGciOiJIUzI1NiJ9.e30.Et9HFtf9R3GEMA0IICOfFMVXY7kkTX1wr4qCyIf58U",
}
PLAIN = {
    "OMP_NUM_THREADS": "2",
    "PYTORCH_ALLOC_CONF": "expandable_segments:True",
    "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
    "CUDA_HOME": "/usr/local/cuda-13.0",
}


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_planted_secrets_are_withheld(name: str) -> None:
    assert recorded_environment({name: SECRETS[name]}) == {name: "(withheld)"}
    assert SECRETS[name].split("=")[-1] not in without_secrets(f"error near {name}={SECRETS[name]} here")


def test_ordinary_values_are_recorded_as_they_are() -> None:
    assert recorded_environment(PLAIN) == PLAIN
    assert not any(looks_secret(name, value) for name, value in PLAIN.items())


def test_where_things_lie_is_not_recorded() -> None:
    """Folders name people and customers: lists of them are a digest, a home folder is ~, scratch is nothing."""
    given = {
        "HOME": "/home/ada",
        "PATH": "/home/ada/secret-customer/bin:/usr/bin",
        "LD_LIBRARY_PATH": "/home/ada/lib",
        "CUDA_HOME": "/home/ada/cuda",
        "TORCH_HOME": "file:/home/ada/hub:/home/adam/hub",
        "TORCHINDUCTOR_CACHE_DIR": "/scratch/ada/cache-001-baseline/inductor",
        "TRITON_CACHE_DIR": "/scratch/ada/cache-001-baseline/triton",
    }
    said = recorded_environment(given)
    assert said["CUDA_HOME"] == "~/cuda"
    assert said["TORCH_HOME"] == "file:~/hub:/home/adam/hub"
    assert sorted(said) == ["CUDA_HOME", "LD_LIBRARY_PATH", "PATH", "TORCH_HOME"]
    assert said["PATH"].startswith("sha256:")
    assert said["PATH"] != said["LD_LIBRARY_PATH"]
    assert recorded_environment({**given, "PATH": given["PATH"] + ":/bin"})["PATH"] != said["PATH"]
    assert not any(word in str(said) for word in ("/home/ada/", "customer", "scratch"))


def test_what_is_not_on_the_list_is_not_recorded() -> None:
    assert recorded_environment({"AWS_REGION": "x", "HOME": "/home/ada", "USER": "ada", "DATABASE_URL": "y"}) == {}


def test_a_worker_gets_a_clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("TORCH_LOGS", "all")
    monkeypatch.setenv("PATH", "/usr/bin")
    env = worker_environment({"OMP_NUM_THREADS": "3"}, 2, tmp_path, tmp_path, True, {"SWITCH": "0"})
    assert "PYTHONPATH" not in env
    assert "TORCH_LOGS" not in env
    assert (env["PATH"], env["OMP_NUM_THREADS"], env["MKL_NUM_THREADS"], env["SWITCH"]) == ("/usr/bin", "3", "2", "0")
    assert env["MALLOC_TRIM_THRESHOLD_"] == "1073741824"
    assert "MALLOC_TRIM_THRESHOLD_" not in worker_environment({}, 1, tmp_path, tmp_path, False, {})
