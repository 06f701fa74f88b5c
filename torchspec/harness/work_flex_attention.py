"""FlexAttention: a block mask from a mask function (by name or the team's own), and optionally a score modification."""

from __future__ import annotations

from typing import Any

from .masks import Mask
from .team import team_function
from .work import Unsupported
from .work_attention import Attention


class FlexAttention(Attention):
    """Axes as attention's. With `mask custom` the entry, called without arguments, gives the mask function
    (batch, head, query position, key position) -> bool tensor. Its float64 reference is attention spelled out."""

    kind = "flex_attention"
    own_path = "flex_attention"

    def mask(self) -> Mask | None:
        if str(self.axis("mask", "none")) != "custom":
            return super().mask()
        if self.task.entry is None:
            raise Unsupported(
                'the mask is custom and the workload names none: kind flex_attention "path:fn"', "backend"
            )
        given: Any = team_function(self.task.team, self.task.entry)()
        return given  # type: ignore[no-any-return]

    def reference(self) -> str | None:
        return "dense"
