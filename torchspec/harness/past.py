"""What the ledger already holds of this plan, harness and candidate, so that a run goes on where one stopped.

Nothing is measured twice: each figure has a key, and a key that is there is not asked for again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .measure import TAIL_SAMPLES

#: Samples that hold the digests of a process's repeats: of the work as the spec freezes it, and under
#: torch.use_deterministic_algorithms(True).
DIGESTS = ("process.digests", "process.digests_forced")
ENDED = ("measured", "failed", "not_run")
#: What makes two machines one kind, whose evidence is pooled (the judge does the same). On another a run begins anew.
HOST = ("os", "architecture", "cpu", "cores", "memory_bytes")


def figure_key(kind: str, body: dict[str, Any]) -> tuple[Any, ...]:
    """What makes a sample, fact or unsupported record the same figure as another."""
    return kind, body.get("cell"), body.get("side"), body.get("metric"), body.get("against"), body.get("repeat")


class Past:
    """Evidence of earlier runs of the same plan, harness, candidate and kind of machine; grows with this run's own."""

    def __init__(
        self, records: Iterable[dict[str, Any]], plan: str, harness: str, candidate: str, host: dict[str, Any]
    ) -> None:
        self.figures: set[tuple[Any, ...]] = set()
        self.done: dict[str, dict[str, Any]] = {}
        self.frozen: dict[str, dict[str, Any]] = {}
        self.timings: dict[tuple[Any, ...], dict[int, list[dict[str, Any]]]] = {}
        self.failures: dict[tuple[str | None, str], list[dict[str, Any]]] = {}
        #: (cell, metric, what, planted) of the controls that were measured; one that was not is tried again.
        self.controls: set[tuple[str, str, str, float | None]] = set()
        self.steps: dict[tuple[str, str | None], dict[str, Any]] = {}
        self.environments: dict[str, dict[str, Any]] = {}
        #: (cell, side, one of DIGESTS) -> repeat -> part -> digests of one fresh process's results.
        self.digests: dict[tuple[str, str, str], dict[int, dict[str, list[str]]]] = {}
        #: (cell, side) -> metric -> the figures of its fresh processes, where these are numbers.
        self.values: dict[tuple[str, str], dict[str, list[float]]] = {}
        self.last_run: str | None = None
        ours: set[str] = set()
        for record in records:
            kind, body, run = record["kind"], record["body"], record["run"]
            if kind == "run.start":
                same = (body.get("plan"), body.get("harness", {}).get("sha256")) == (plan, harness)
                before = body.get("host") or {}
                here = all(before.get(name) == host.get(name) for name in HOST)
                if same and here and body.get("candidate") == candidate:
                    ours.add(run)
                    self.last_run = run
            if run in ours:
                self.note(kind, body, record["seq"])

    def note(self, kind: str, body: dict[str, Any], seq: int) -> None:
        """Takes one record into account."""
        cell = body.get("cell")
        if kind in ("sample", "fact", "unsupported"):
            self.figures.add(figure_key(kind, body))
            if kind == "sample" and body.get("against") is None and isinstance(body.get("value"), (int, float)):
                by_metric = self.values.setdefault((body["cell"], body["side"]), {})
                by_metric.setdefault(body["metric"], []).append(float(body["value"]))
            if body["metric"] in DIGESTS:
                held_here = self.digests.setdefault((body["cell"], body["side"], body["metric"]), {})
                held_here[body["repeat"]] = body["detail"]["digests"]
        elif kind == "cell.done":
            self.done[str(cell)] = body
            if body["status"] not in ENDED:  # it will be tried again, from a clean slate of failures
                self.failures = {key: value for key, value in self.failures.items() if key[0] != cell}
        elif kind == "frozen.made":
            self.frozen[str(cell)] = body
        elif kind == "timing":
            held = {"a_b": body["rounds"], "seq": seq, "items": body["items"], "bus_bytes": body.get("bus_bytes")}
            held["of"] = body.get("of")
            self.timings.setdefault(timing_key(body), {}).setdefault(body["pair"], []).append(held)
        elif kind == "side.failed":
            self.failures.setdefault((cell, body["side"]), []).append(body)
        elif kind == "control":
            if body.get("error") is None:
                self.controls.add((str(cell), body["metric"], body["what"], body.get("planted")))
        elif kind == "rehearsal.step":
            self.steps[body["step"], cell] = body
        elif kind == "side.environment":
            self.environments[body["side"]] = body

    def failed(self, cell: str | None, side: str, at: str) -> int:
        """How often a side has failed in a cell at the same thing: what else went wrong is not held against it."""
        return sum(body.get("at") == at for body in self.failures.get((cell, side), []))

    def ended(self, cell: str) -> bool:
        """Whether a cell has an ending that stands."""
        return cell in self.done and self.done[cell]["status"] in ENDED

    def has(self, kind: str, **key: Any) -> bool:
        """Whether a figure is there. A metric that is unsupported counts as given."""
        asked = figure_key(kind, key)
        return asked in self.figures or ("unsupported", *asked[1:4], None, None) in self.figures

    def pairs(
        self, cell: str, against: str, stage: str, planted: float | None = None, metric: str = ""
    ) -> list[list[Any]]:
        """The whole pairs of one comparison as `sequential.series` takes them: pairs of builds of rounds.

        One that was cut short, by a side that died or a run that was killed, is no pair: another is taken in its place.
        For a `metric` of the tail, those that have the fewest samples that tell anything of it.
        """
        held = self.timings.get((cell, against, stage, planted), {})
        _, fewest = TAIL_SAMPLES.get(metric[-3:], (0, 0))
        found = [[build["a_b"] for build in held[pair]] for pair in sorted(held) if _whole(held[pair])]
        return [builds for builds in found if not fewest or _samples(builds) >= fewest]

    def next_pair(self, cell: str, against: str, stage: str, planted: float | None = None) -> int:
        return max(self.timings.get((cell, against, stage, planted), {-1: []})) + 1

    def seqs(self, cell: str, against: str, stage: str, planted: float | None = None) -> list[int]:
        """The record numbers of a comparison's timings."""
        held = self.timings.get((cell, against, stage, planted), {})
        return sorted(build["seq"] for builds in held.values() for build in builds)


def _whole(builds: list[dict[str, Any]]) -> bool:
    """Whether a pair has as many builds and rounds as were meant."""
    meant = builds[0]["of"]
    return meant is None or (
        len(builds) >= meant["builds"] and all(len(build["a_b"]) >= meant["rounds"] for build in builds)
    )


def _samples(builds: list[Any]) -> int:
    """Samples of the side that has fewer."""
    return min(sum(len(one[side]) for rounds in builds for one in rounds) for side in ("a_ns", "b_ns"))


def timing_key(body: dict[str, Any]) -> tuple[Any, ...]:
    return body["cell"], body["against"], body["stage"], body["planted"]
