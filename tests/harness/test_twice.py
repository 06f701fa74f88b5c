"""A fact that does not hold is the work's own doing: who is ended once is asked again. Jobs and workers are mocks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from torchspec.harness.dist_checks import CheckpointFacts
from torchspec.harness.dist_fault_trials import FaultTrials, SideFaults
from torchspec.harness.dist_peer import LaunchFailed
from torchspec.harness.dist_trials import RecoveryTrials
from torchspec.harness.fresh import FreshCell
from torchspec.harness.looks import checkpoints
from torchspec.harness.supervise import Unable, WorkerFailed
from torchspec.harness.twice import asked_twice


def failing(how: str, doing: str, side: str) -> WorkerFailed:
    failure = WorkerFailed(how, doing, f"{side} {how}", None, "SIGKILL" if how == "killed" else None)
    failure.worker = SimpleNamespace(side=side)  # type: ignore[assignment]
    return failure


class MockRun:
    """Keeps what is written."""

    sides = ("baseline", "candidate")
    candidate = "candidate"
    timeout_s = start_timeout_s = 1.0
    progress = SimpleNamespace(event=lambda *given, **more: None)
    past = SimpleNamespace(has=lambda *given, **more: False)

    def __init__(self, folder: Path = Path()) -> None:
        self.failed: list[tuple[str, str]] = []
        self.wrote: list[Any] = []
        self.lacks: list[tuple[str, str, str]] = []
        self.scratch = folder

    def side_failed(self, cell: str, failure: WorkerFailed, side: str, other_ran: bool, at: str) -> int:
        assert at == "question", "no attempt at a fact counts against figures or timing"
        self.failed.append((side, failure.how))
        return len(self.failed)

    def unsupported(self, cell: str, side: str, metric: str, reason: Unable) -> None:
        self.lacks.append((side, metric, str(reason)))

    def write(self, kind: str, body: dict[str, Any]) -> None:
        self.wrote.append(body)

    def write_all(self, records: list[tuple[str, dict[str, Any]]]) -> None:
        self.wrote += [body for _, body in records]

    def frozen_file(self, cell: str) -> Path:
        return self.scratch / f"{cell}.pt"

    def output_file(self, cell: str, side: str, variant: str = "own") -> Path:
        return self.scratch / f"{cell}.{side}.{variant}.pt"


def mock_cell(run: MockRun, *metrics: str, **more: Any) -> Any:
    def fact(side: str, metric: str, found: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        detail = {key: value for key, value in found.items() if key not in ("holds", "error")}
        return "fact", {"side": side, "metric": metric, "holds": found["holds"], "error": found["error"],
                        "detail": detail}  # fmt: skip

    needs = SimpleNamespace(wants=lambda metric: metric in metrics)
    ran = {"baseline", "candidate"}
    held = {"cell": "c", "count": 2, "transport": "gloo", "ran": ran, "needs": needs, "fact": fact, "_fact": fact}
    return SimpleNamespace(**held, run=run, ranks=run, **more)


# The question itself.


def asking(*answers: Any) -> Callable[[], dict[str, Any]]:
    left = list(answers)

    def ask() -> dict[str, Any]:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    return ask


GOOD = {"holds": True, "error": None}


@pytest.mark.parametrize("how", ["killed", "exited", "hung"])
def test_who_is_ended_once_is_asked_again_and_the_second_time_is_a_fact(how):
    run = MockRun()
    once = asking(failing(how, "read", "candidate"), GOOD)
    assert asked_twice(run, "c", "candidate", once, reads=("read",)) == GOOD  # type: ignore[arg-type]
    assert run.failed == [("candidate", how)]
    again = asking(failing(how, "read", "candidate"), failing(how, "read", "candidate"))
    found = asked_twice(run, "c", "candidate", again, reads=("read",))  # type: ignore[arg-type]
    assert (found["holds"], found["how"], found["attempts"]) == (False, how, 2)


def test_an_error_of_the_work_itself_is_a_fact_at_once_whoever_reads():
    for reader in ("baseline", "candidate"):
        run = MockRun()
        found = asked_twice(run, "c", "candidate", asking(failing("raised", "read", reader)), reads=("read",))  # type: ignore[arg-type]
        assert (found["holds"], run.failed) == (False, [])


def test_a_baseline_that_is_ended_twice_is_held_against_its_own_work():
    def twice() -> Callable[[], dict[str, Any]]:
        return asking(failing("killed", "read", "baseline"), failing("killed", "read", "baseline"))

    found = asked_twice(MockRun(), "c", "candidate", twice(), reads=("read",), alone=asking(GOOD))  # type: ignore[arg-type]
    assert found["holds"] is False
    with pytest.raises(Unable, match="with its own work too"):
        asked_twice(
            MockRun(), "c", "candidate", twice(), reads=("read",), alone=asking(failing("killed", "read", "baseline"))
        )  # type: ignore[arg-type]
    with pytest.raises(Unable, match="no work of its own"):
        asked_twice(MockRun(), "c", "candidate", twice(), reads=("read",))  # type: ignore[arg-type]


def test_what_the_baseline_cannot_write_and_what_does_not_open_is_no_fact():
    writing = asking(*[failing("raised", "write", "baseline")] * 2)
    with pytest.raises(Unable, match="baseline raised while doing write"):
        asked_twice(MockRun(), "c", "candidate", writing, reads=("read",), writes=("write",))  # type: ignore[arg-type]
    found = asked_twice(
        MockRun(), "c", "candidate", asking(failing("raised", "write", "candidate")), reads=(), writes=("write",)
    )  # type: ignore[arg-type]
    assert found["holds"] is False
    with pytest.raises(Unable, match="while doing open"):
        asked_twice(MockRun(), "c", "candidate", asking(*[failing("raised", "open", "candidate")] * 2), reads=("read",))  # type: ignore[arg-type]


# Checkpoints of ranks.

DIGESTS = {"model": "m", "optimizer": "o"}
WRITTEN = {"path": "p", "earlier_path": "q", "digests": DIGESTS, "earlier": DIGESTS, "bytes": 1, "seconds": 0.1,
           "losses": [1.0]}  # fmt: skip
READ = {"digests": DIGESTS, "seconds": 0.1, "losses": [1.0]}
REFUSED = {"data cut in half": "no", "whole file cut in half": "no"}


class MockRanks:
    """Both sides' jobs: answers what two ranks would; `faults` [(side, do, times, how)] are raised first."""

    def __init__(self, *faults: tuple[str, str, int, str], answers: dict[str, list[Any]] | None = None) -> None:
        self.faults = [list(one) for one in faults]
        self.answers = answers or {}

    def worker(self, side: str) -> Any:
        def each(do: str, timeout_s: float, given: dict[str, Any]) -> list[Any]:
            for fault in self.faults:
                if fault[:2] == [side, do] and fault[2] > 0:
                    fault[2] -= 1
                    raise failing(str(fault[3]), do, side)
            usual = {"checkpoint.write": [WRITTEN] * 2, "checkpoint.read": [READ] * 2,
                     "checkpoint.damaged": [REFUSED] * 2}[do]  # fmt: skip
            return self.answers.get(f"{do} {given.get('form', '')} {given.get('path')}", self.answers.get(do, usual))

        return SimpleNamespace(open_names=lambda: ["checkpoint"], each=each)


def checkpoint_facts(metric: str, ranks: MockRanks) -> tuple[MockRun, dict[str, Any]]:
    run = MockRun()
    run.embedded = SimpleNamespace(workloads={"w": {"options": {}}}, cells={"c": {"workload": "w"}})  # type: ignore[attr-defined]
    CheckpointFacts(mock_cell(run, metric, pool=ranks)).all()
    return run, {body["side"]: body for body in run.wrote}


@pytest.mark.parametrize(
    ("metric", "do"),
    [("checkpoint.candidate_to_baseline", "read"), ("checkpoint.resume", "read"), ("checkpoint.truncated", "damaged"),
     ("checkpoint.candidate_to_baseline", "write")],
)  # fmt: skip
def test_one_stray_kill_at_a_checkpoint_fails_no_gate(metric, do):
    victim = "candidate" if do == "write" else "baseline"
    run, facts = checkpoint_facts(metric, MockRanks((victim, f"checkpoint.{do}", 1, "killed")))
    assert all(body["holds"] for body in facts.values())
    assert facts
    assert run.failed == [(victim, "killed")]


def test_a_candidate_that_dies_each_time_it_reads_fails_its_own_facts():
    _, facts = checkpoint_facts("checkpoint.resume", MockRanks(("candidate", "checkpoint.read", 9, "killed")))
    assert (facts["baseline"]["holds"], facts["candidate"]["holds"]) == (True, False)
    assert facts["candidate"]["detail"]["attempts"] == 2
    _, facts = checkpoint_facts("checkpoint.resume", MockRanks(("candidate", "checkpoint.read", 9, "raised")))
    assert facts["candidate"]["holds"] is False


def test_a_baseline_that_cannot_read_its_own_either_blames_nobody():
    ranks = MockRanks(("baseline", "checkpoint.read", 9, "killed"))
    run, facts = checkpoint_facts("checkpoint.candidate_to_baseline", ranks)
    assert facts == {}
    assert [(side, metric) for side, metric, _ in run.lacks] == [("candidate", "checkpoint.candidate_to_baseline")]


def test_a_damaged_checkpoint_that_any_rank_takes_and_a_previous_one_that_does_not_load_are_told():
    taken = {"checkpoint.damaged": [REFUSED, {**REFUSED, "whole file cut in half": None}]}
    _, facts = checkpoint_facts("checkpoint.truncated", MockRanks(answers=taken))
    assert facts["candidate"]["error"] == "a checkpoint with whole file cut in half was taken for whole by rank 1"
    assert facts["candidate"]["detail"]["previous_loads"] is True
    other = {"checkpoint.read whole q": [{**READ, "digests": {**DIGESTS, "model": "x"}}] * 2}
    _, facts = checkpoint_facts("checkpoint.truncated", MockRanks(answers=other))
    assert facts["candidate"]["holds"] is False
    assert "does not load (whole)" in facts["candidate"]["error"]
    assert facts["candidate"]["detail"]["previous_loads"] is False


# Peers that are late, dead or missing.

HEARD = {"error": "timed out", "seconds": 2.0, "in_time": True}
DEAF = {"error": None, "seconds": 7.5, "in_time": False}
WAITED = {"error": None, "seconds": 0.5, "in_time": False}


class MockJob:
    """A job of two ranks. `said` {command: answers in turn}; an exception is raised."""

    ranks = 2

    def __init__(self, said: dict[str, list[Any]], alive: tuple[bool, bool] = (True, False)) -> None:
        self.said, self.asked, self.alive = said, [], alive

    def ask(self, do: str, wait_s: float, **given: Any) -> list[Any]:
        self.asked.append((do, given["transport"]))
        if do == "fault.late" and given.get("late_s", 0) < 1:
            return [WAITED, WAITED]
        usual = [None, None] if do == "fault.join" else [HEARD, None]
        answer = self.said[do].pop(0) if self.said.get(do) else usual
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    def tell(self, do: str, **given: Any) -> int:
        return 1

    def answers(self, number: int) -> dict[int, Any]:
        answer: dict[int, Any] = self.said["fault.dead"][0]
        return answer

    def current(self) -> list[Any]:
        return [SimpleNamespace(rank=rank, lost=not alive) for rank, alive in enumerate(self.alive)]

    def wait(self, until: Callable[[], bool], *given: Any, **more: Any) -> None:
        assert until()


class MockFaultRun(MockRun):
    """Gives out workers whose jobs are the ones it was given, in turn."""

    def __init__(self, jobs: list[MockJob]) -> None:
        super().__init__()
        self.jobs = jobs

    def start_ranks(self, side: str, *given: Any, **more: Any) -> Any:
        job = self.jobs.pop(0)

        def as_worker_failed(failure: LaunchFailed, job: Any) -> WorkerFailed:
            return failing(failure.how, failure.doing, side)

        return SimpleNamespace(
            side=side, jobs={2: job}, job=lambda count: job, send=lambda do: None, kill=lambda: None,
            as_worker_failed=as_worker_failed,
        )  # fmt: skip


def faults(metric: str, *jobs: MockJob, transport: str = "gloo") -> tuple[MockFaultRun, list[Any]]:
    run = MockFaultRun(list(jobs))
    one = SideFaults(run, "candidate", 2, transport, [(mock_cell(run, metric), metric)])  # type: ignore[arg-type]
    one.write_all(run.start_ranks("candidate"))
    return run, run.wrote


def test_ranks_that_are_ended_or_deaf_once_are_asked_again():
    killed = LaunchFailed("killed", "killed by SIGKILL", doing="fault.late", rank=0)
    for first in (killed, [DEAF, None], [{"ended": True}, None]):
        run, (fact,) = faults("collective.rank_late", MockJob({"fault.late": [first]}), MockJob({}))
        assert fact["holds"], first
        assert len(run.failed) == 1
        run, (fact,) = faults(
            "collective.rank_late", MockJob({"fault.late": [first]}), MockJob({"fault.late": [first]})
        )
        assert not fact["holds"]
        assert fact["detail"]["attempts"] == 2
        assert len(run.failed) == 2


def test_an_error_of_the_command_itself_is_told():
    raised = {0: {"ok": False, "error": {"message": "ValueError: no such group"}}}
    run, (fact,) = faults("collective.rank_dead", MockJob({"fault.dead": [raised]}))
    assert (fact["holds"], fact["detail"]["how"], run.failed) == (False, "raised", [])
    assert fact["error"]


def test_a_survivor_that_is_gone_is_no_finding_about_the_dead():
    silent = MockJob({"fault.dead": [{}]}, alive=(False, False))
    run, (fact,) = faults("collective.rank_dead", silent, MockJob({"fault.dead": [{0: {"ok": True, "value": HEARD}}]}))
    assert fact["holds"]
    assert run.failed == [("candidate", "killed")]


def test_a_job_that_never_starts_says_nothing_about_the_facts():
    dead = LaunchFailed("exited", "no", doing="starting")
    jobs = [MockJob({"fault.join": [dead]}) for _ in range(2)]
    run, wrote = faults("collective.rank_late", *jobs)
    assert wrote == []
    assert [(side, metric) for side, metric, _ in run.lacks] == [("candidate", "collective.rank_late")]


def test_each_transport_is_tried_by_itself_and_one_that_is_not_there_is_unsupported():
    lacking = {"unsupported": {"error": "nccl: needs a CUDA device", "where": "machine"}}
    jobs = [MockJob({}) for _ in range(2)] + [MockJob({"fault.join": [[lacking, lacking]]}) for _ in range(2)]
    run = MockFaultRun(list(jobs))
    cells = [mock_cell(run, "collective.rank_missing") for _ in range(2)]
    cells[1].transport = "nccl"
    FaultTrials(run, cells).all()  # type: ignore[arg-type]
    found = sorted((body["side"], body["detail"]["transport"]) for body in run.wrote)
    assert found == [("baseline", "gloo"), ("candidate", "gloo")]
    assert sorted(side for side, *_ in run.lacks) == ["baseline", "candidate"]
    assert {transport for job in jobs for _, transport in job.asked} == {"gloo", "nccl"}


# Recovery.


def test_a_trial_of_recovery_that_something_else_ended_is_tried_again(monkeypatch):
    for how, facts in (("killed", [True]), ("raised", [False])):
        run = MockFaultRun([MockJob({}) for _ in range(4)])
        run.sides = ("candidate",)  # type: ignore[assignment]
        trials = RecoveryTrials(mock_cell(run, "recovery.rank_killed"))
        ask = asking(failing(how, "training", "candidate"), {"holds": True, "error": None, "seconds": 1.0})
        monkeypatch.setattr(trials, "_trial", lambda *given, ask=ask: ask())
        trials.all()
        assert [body["holds"] for body in run.wrote] == facts
        assert run.failed == ([("candidate", "killed")] if how == "killed" else [])


def test_a_rank_that_is_gone_before_the_step_in_which_it_dies_proves_nothing():
    events = [{"event": "lost", "rank": 1, "restart": 0, "at": 0.0}]
    lives = [0, 0]
    job = SimpleNamespace(messages=events, tell=lambda *a, **k: 1, wait=lambda *a, **k: None, answers=lambda n: {},
                          current=lambda: [SimpleNamespace(restart=life) for life in lives])  # fmt: skip
    trials = RecoveryTrials(mock_cell(MockRun()))
    with pytest.raises(LaunchFailed, match="gone before the step") as failed:
        trials._lose_and_recover(job, {}, {})  # type: ignore[arg-type]
    assert failed.value.how == "killed"
    lives = [1, 1]  # torchrun began anew before the ranks had said anything
    with pytest.raises(LaunchFailed, match="ended while it started") as failed:
        trials._lose_and_recover(job, {}, {})  # type: ignore[arg-type]
    assert failed.value.how == "killed"


# Single processes.


def test_state_and_programs_that_a_killed_worker_was_reading_are_read_again(tmp_path):
    def run_with(times: int) -> MockRun:
        run = MockRun(tmp_path)
        left = {"restore": times, "reload": times}

        def start(side: str, purpose: str) -> Any:
            def ask(do: str, timeout_s: float, **given: Any) -> dict[str, Any]:
                if left.get(do, 0) > 0:
                    left[do] -= 1
                    raise failing("killed", do, side)
                if do == "checkpoint":
                    Path(given["path"]).write_bytes(b"state")
                    return {"parts": ["module"]}
                return {"weights": "w", "expected": "w", "holds": True, "error": None}

            return SimpleNamespace(ask=ask, close=lambda: None)

        run.start = start  # type: ignore[attr-defined]
        return run

    for times, holds in ((0, True), (1, True), (2, False)):
        run = run_with(times)
        ((_, fact),) = checkpoints(mock_cell(run, "checkpoint.candidate_to_baseline"))
        assert (fact["holds"], len(run.failed)) == (holds, times)
        run = run_with(times)
        fresh = object.__new__(FreshCell)
        fresh.__dict__.update(mock_cell(run).__dict__)
        ((_, fact),) = fresh.reloaded("export.reload", "candidate", "candidate", tmp_path / "program.pt2")
        assert (fact["holds"], len(run.failed)) == (holds, times)
