"""One cell's frozen work: inputs, weights and references made once, and the records of what is held against them.

Must not say in which order processes are asked; `fresh` does.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from .needs import Needs
from .numerics import OWN_SIZE
from .progress import Estimate
from .run import Run
from .supervise import Unable, Worker, WorkerFailed

Records = list[tuple[str, dict[str, Any]]]


class CellOver(Exception):
    """A cell that ends here, with its status and reason."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class FrozenCell:
    """What a cell needs, what was frozen for it, and its figures as records."""

    def __init__(self, run: Run, cell: str, estimate: Estimate) -> None:
        self.run, self.cell, self.estimate = run, cell, estimate
        self.needs = Needs(run.embedded, cell, run.candidate)
        self.ran: set[str] = set()
        self.baseline_done = threading.Event()

    def freeze(self) -> None:
        """Inputs, weights and references, made once by the baseline; checked against what was made before."""
        run, needs, cell = self.run, self.needs, self.cell
        path = run.frozen_file(cell)
        wanted = [a for a in needs.references if not run.reference_file(cell, a).is_file()]
        if path.is_file() and cell in run.past.frozen and not wanted:
            return
        run.progress.event("doing", what="freezing inputs and weights", side="baseline")
        for last in (False, True):
            try:
                self._freeze_once(path, wanted)
                return
            except Unable as reason:
                run.unsupported(cell, "baseline", None, reason)
                raise CellOver("not_run", str(reason)) from reason
            except WorkerFailed as failure:
                run.side_failed(cell, failure, "baseline", False)
                if last:
                    raise CellOver("error", f"the baseline could not make the inputs: {failure.error}") from failure

    def _freeze_once(self, path: Path, wanted: list[str]) -> None:
        run, cell = self.run, self.cell
        worker = run.maker()
        try:
            made = worker.ask("freeze", run.timeout_s, cell=cell, path=str(path))
            before = run.past.frozen.get(cell)
            if before is not None and (before["inputs"], before["weights"]) != (made["inputs"], made["weights"]):
                reason = "the baseline made other inputs or weights from the same seed than in the earlier run"
                run.broken(cell, "frozen inputs", before["inputs"], made["inputs"], reason)
                raise CellOver("error", reason)
            digest = None
            for against in wanted:
                file = str(run.reference_file(cell, against))
                try:
                    found = worker.ask(
                        "reference", run.timeout_s, cell=cell, frozen=str(path), against=against, path=file
                    )
                    digest = found["digest"] if against == "cpu.float64" else digest
                except Unable as reason:
                    self._unsupported_errors("baseline", against, reason)
            if before is None:
                body = {"cell": cell, "inputs": made["inputs"], "weights": made["weights"], "file": path.name}
                seed = run.embedded.frozen["seed"]
                run.write("frozen.made", {**body, "outputs_reference": digest, "made_by": "baseline", "seed": seed})
        except WorkerFailed:
            worker.close()
            raise

    def _unsupported_errors(self, side: str, against: str, reason: Unable) -> None:
        for metric in sorted(self.needs.metrics):
            if metric.startswith("error."):
                self.run.unsupported(self.cell, side, metric, reason, against)

    def _sample(
        self, side: str, metric: str, value: Any, unit: str, repeat: int, meter: str, against: str | None, detail: Any
    ) -> dict[str, Any]:
        return {
            "cell": self.cell,
            "candidate": self.run.candidate,
            "side": side,
            "metric": metric,
            "value": value,
            "unit": unit,
            "repeat": repeat,
            "meter": meter,
            "against": against,
            "process": "fresh",
            "detail": detail,
        }

    def _fact(self, side: str, metric: str, found: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        detail = {key: value for key, value in found.items() if key not in ("ok", "holds", "error")}
        body = {"cell": self.cell, "candidate": self.run.candidate, "side": side, "metric": metric, "against": None}
        return "fact", {**body, "holds": found["holds"], "error": found.get("error"), "detail": detail}

    def _seen(self, side: str, opened: dict[str, Any]) -> None:
        """Records, once a run and side, what a side loaded; a difference from what was made breaks the control."""
        run, made = self.run, self.run.past.frozen[self.cell]
        if side not in self.ran:
            body = {"cell": self.cell, "candidate": run.candidate, "side": side}
            run.write("frozen.seen", {**body, "inputs": opened["inputs"], "weights": opened["weights"]})
        for part in ("inputs", "weights"):
            if opened[part] != made[part]:
                reason = f"{side} holds other {part} than those that were frozen"
                run.broken(self.cell, f"frozen {part}", made[part], opened[part], reason)
                raise CellOver("error", reason)

    def _errors(self, worker: Worker, side: str, path: Path) -> Records:
        """Errors against every reference, and of the candidate against the baseline and its own other paths."""
        run, limit = self.run, self.run.timeout_s
        references = {a: run.reference_file(self.cell, a) for a in self.needs.references}
        if side == run.candidate:
            self.baseline_done.wait()
            references["baseline"] = run.output_file(self.cell, "baseline")
            for variant in self.needs.variants:
                other = run.output_file(self.cell, side, variant)
                try:
                    frozen = str(run.frozen_file(self.cell))
                    worker.ask("open", limit, name=variant, cell=self.cell, frozen=frozen, variant=variant)
                    worker.ask("outputs", limit, name=variant, path=str(other), gradients=self.needs.train)
                    references[variant] = other
                except Unable as reason:
                    self._unsupported_errors(side, variant, reason)
                worker.ask("close", limit, name=variant)
        records: Records = []
        exact = run.reference_file(self.cell, "cpu.float64")
        truth = str(exact) if exact.is_file() else None
        for against, reference in references.items():
            if not reference.is_file():
                continue
            found = worker.ask("compare", limit, values=str(path), references=str(reference), truth=truth)
            nameless = found["parts"].get("output", {}).keys().isdisjoint({"logits_max_abs", "problem"})
            if nameless and self.needs.wants("error.logits_max_abs"):
                why = (
                    "the output of this work names no `logits`: it is a tensor, or a tuple, and no dict with that name"
                )
                run.unsupported(self.cell, side, "error.logits_max_abs", Unable(why, "backend"), against)
            for part, figures in found["parts"].items():
                prefix = "error." if part == "output" else "error.gradient_"
                where = figures.pop("worst", {})
                problem = figures.pop("problem", None)
                by_scale = figures.pop("by_scale", [])
                places = {"nonfinite": figures["nonfinite"], "nan_on_both": figures.pop("nan_on_both", 0.0)}
                odd = {} if problem else {name: int(count) for name, count in places.items() if count}
                for name, value in figures.items():
                    unit = {"psnr": "dB", "ulp": "ulp", "nonfinite": "count"}.get(name, "1")
                    detail = {"tensor": where.get(name), **odd, **({"problem": problem} if problem else {})}
                    if by_scale and name in ("max_rel", *OWN_SIZE):
                        detail["by_scale"] = by_scale
                    body = self._sample(side, prefix + name, value, unit, 0, "float64 on the cpu", against, detail)
                    records.append(("sample", body))
        return records

    def _losses(self, worker: Worker, side: str) -> Records:
        workload = self.run.embedded.workloads[self.run.embedded.cells[self.cell]["workload"]]
        steps = int(workload["options"].get("steps") or self.needs.loss_steps)
        frozen = str(self.run.frozen_file(self.cell))
        try:
            worker.ask("open", self.run.timeout_s, name="loss", cell=self.cell, frozen=frozen)
            losses = worker.ask("losses", self.run.timeout_s, name="loss", steps=steps)["losses"]
        except Unable as reason:
            self.run.unsupported(self.cell, side, "loss.final", reason)
            return []
        worker.ask("close", self.run.timeout_s, name="loss")
        detail = {"losses": losses, "steps": steps}
        return [("sample", self._sample(side, "loss.final", losses[-1], "1", 0, "optimizer steps", None, detail))]
