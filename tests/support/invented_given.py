"""What a memo is given beside plan and verdict, INVENTED too: lock, registration, environments, ledger, signer."""

from __future__ import annotations

from typing import Any

from invented_plan import BACKENDS, plan
from invented_verdict import DIGEST

from torchspec.model.evidence import GENESIS, Record
from torchspec.model.plan import Plan
from torchspec.model.registration import GitState, LimitChange, Lock, LockedFile, Registration

ISSUED = "2026-11-10T06:20:00Z"
COMMIT = "4f2c9e1d0b7a86f35241c0de9b8a7f6e5d4c3b2a"


def lock(p: Plan | None = None) -> Lock:
    p = p or plan()
    git = GitState(COMMIT, "main", False, True, "2026-11-06T09:12:00Z", "https://git.example/ml/platform.git")
    return Lock(
        "torchspec.lock/1",
        p.name,
        "0.1.0",
        "33" * 32,
        {},
        (LockedFile("quickstart.tspec", "11" * 32),),
        (LockedFile("quickstart/reranker.py", "22" * 32),),
        DIGEST,
        {b: f"4{i}" * 32 for i, b in enumerate(BACKENDS)},
        {},
        git,
    )


def confirmatory() -> Registration:
    return Registration("confirmatory", (), COMMIT, "2026-11-06T09:12:00Z", "2026-11-09T21:04:11Z")


def exploratory() -> Registration:
    return Registration(
        "exploratory",
        ("a limit changed after its first evidence",),
        COMMIT,
        "2026-11-06T09:12:00Z",
        "2026-11-09T21:04:11Z",
        (
            LimitChange(
                "memory.driver_peak", "growth <= 5 %", "growth <= 80 %", "77ab03d" + "0" * 33, "2026-11-10T01:00:00Z"
            ),
        ),
        "-  memory.driver_peak  growth <= 5 %   else defer\n+  memory.driver_peak  growth <= 80 %  else defer\n",
    )


def environments() -> dict[str, dict[str, Any]]:
    def one(side: str, torch: str, git: str, packages: dict[str, str]) -> dict[str, Any]:
        return {
            "side": side,
            "python": "3.11.2",
            "executable": ("5" if side == "baseline" else "6") * 64,
            "torch": {
                "version": torch,
                "git_version": git,
                "cuda": None,
                "debug": False,
                "config": ("7" if side == "baseline" else "8") * 64,
            },
            "packages": {"torch": torch, "numpy": "2.4.0", "filelock": "3.20.0", "sympy": "1.14.0"} | packages,
            "torch_pins": ["sympy", "triton", "networkx"],
            "env": {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
            "threads": {"torch": 1, "interop": 1, "omp": 1},
            "device": {"name": "cpu", "model": "two cores"},
            "glibc": "2.41",
            "affinity": [0, 1],
            "malloc": {"MALLOC_TRIM_THRESHOLD_": "1073741824"},
        }

    return {
        "baseline": one("baseline", "2.13.0", "a" * 40, {"networkx": "3.5"}),
        "candidate": one("candidate", "2.14.1", "b" * 40, {"networkx": "3.6"}),
    }


def records(p: Plan | None = None) -> list[Record]:
    """A short ledger: the runs' starts and timings of the cpu cells."""
    p = p or plan()
    out: list[Record] = []

    def add(time: str, run: str, kind: str, body: dict[str, Any]) -> None:
        out.append(Record(len(out), time, run, kind, body, GENESIS, f"{len(out):064x}"))

    for run, time in (("r-20261109-2104", "2026-11-09T21:04:10.5Z"), ("r-20261109-2107", "2026-11-09T21:07:44.0Z")):
        add(
            time,
            run,
            "run.start",
            {
                "argv": [
                    "python",
                    "cpu.py",
                    "pair",
                    "--baseline",
                    "/opt/envs/2.13.0/bin/python",
                    "--candidate",
                    "/opt/envs/2.14.1/bin/python",
                    "--evidence",
                    "out/quickstart/evidence",
                ],
                "backend": "cpu",
                "candidate": "candidate",
                "git": {"commit": COMMIT, "dirty": False},
                "host": {"os": "Linux", "cpu": "2 cores, AVX2"},
            },
        )
    for index, cell in enumerate(c for c in p.cells if c.backend == "cpu" and c.mode != "export"):
        for pair in range(4):
            base = (1 + index) * 1e6
            rounds = [
                {
                    "order": "ab",
                    "a_ns": [base * (1 + 0.01 * ((k * 7 + pair) % 9)) for k in range(12)],
                    "b_ns": [base * (0.98 + 0.012 * ((k * 5 + pair) % 9)) for k in range(12)],
                }
                for _ in range(4)
            ]
            add(
                f"2026-11-09T21:1{pair}:00Z",
                "r-20261109-2107",
                "timing",
                {
                    "cell": cell.id,
                    "candidate": "candidate",
                    "pair": pair,
                    "build": 0,
                    "stage": "measure",
                    "a": "baseline",
                    "b": "candidate",
                    "rounds": rounds,
                },
            )
    add("2026-11-10T03:37:02Z", "r-20261109-2107", "run.end", {"status": "completed"})
    return out


SIGNER = "ci-bot: self-signed, and unknown to you unless you hold its certificate"


def arguments(**changes: Any) -> dict[str, Any]:
    """Keyword arguments of `view`, but for plan and verdict."""
    given = {
        "lock": lock(),
        "registration": confirmatory(),
        "environments": environments(),
        "records": records(),
        "signer": SIGNER,
        "issued": ISSUED,
    }
    return given | changes
