"""The team's custom kernels: like its own code, but on a GPU only, and held against the standard operator."""

from __future__ import annotations

import importlib.util
from typing import Any

from .work import Job, ModuleJob, Unsupported
from .work_python import TeamCode


class TeamKernel(TeamCode):
    """`package` is what the kernel's language is imported as. The float64 reference is what stands beside it: a
    function of that name in the team's file (module with the same names of weights), or a function below torch."""

    package = ""
    distribution = ""
    items_unit = "calls"
    input_gradients = True

    def reference(self) -> str | None:
        return self.task.beside

    def job(self, frozen: dict[str, Any], mode: str, path: str | None, device: Any, dtype: Any) -> Job:
        if path is None and device.type == "cpu":
            raise Unsupported(f"a kernel in {self.kind} does not run on a CPU", "backend")
        if path is None and importlib.util.find_spec(self.package) is None:
            raise Unsupported(f"this environment has no {self.distribution or self.package}", "machine")
        return ModuleJob(self, frozen, mode, path, device, dtype)
