"""A Triton kernel of the team, beside the standard operator that it replaces."""

from __future__ import annotations

from .kernels import TeamKernel


class TritonKernel(TeamKernel):
    """As the team's own code; needs a GPU and the package triton."""

    kind = "triton"
    package = "triton"
