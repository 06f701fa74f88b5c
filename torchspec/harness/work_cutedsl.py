"""A CuTeDSL kernel of the team, beside the standard operator that it replaces."""

from __future__ import annotations

from .kernels import TeamKernel


class CuteDslKernel(TeamKernel):
    """As the team's own code; needs an NVIDIA GPU and the package nvidia-cutlass-dsl."""

    kind = "cutedsl"
    package = "cutlass"
    distribution = "nvidia-cutlass-dsl"
