"""FlexAttention: a block mask from a mask function (by name or the team's own), and optionally a score modification."""

from __future__ import annotations

import copy
from typing import Any

from .masks import Mask, Score, Shape
from .team import call_team, team_function
from .work import Unsupported
from .work_attention import Attention


class FlexAttention(Attention):
    """Axes as attention's. With `mask custom` the entry gives the mask function (batch, head, query position, key
    position) -> bool tensor; with `score custom` the score modification (score, batch, head, query position, key
    position) -> score; with both, the two as a pair. The entry is given what its parameters name, as any function of
    the team: `seq`, `batch`, `heads` and `device` are those of the inputs that it is for."""

    kind = "flex_attention"
    own_path = "flex_attention"

    def _custom(self) -> tuple[bool, bool]:
        """Whether the mask and the score modification are the team's own."""
        return str(self.axis("mask", "none")) == "custom", self.task.options.get("score") == "custom"

    def _given(self, shape: Shape, device: Any) -> Any:
        """What the team's function gives for scores of this shape: the same each time, where it draws, too."""
        import torch

        if self.task.entry is None:
            what = "mask" if self._custom()[0] else "score"
            raise Unsupported(
                f'the {what} is custom and the workload names none: kind flex_attention "path:fn"', "backend"
            )
        task, sizes = copy.copy(self.task), {"batch": shape[0], "heads": shape[1], "seq": shape[2]}
        task.axes = {**task.axes, "head_dim": self.sizes()[3], **sizes}
        torch.manual_seed(task.seed)
        return call_team(team_function(task.team, self.task.entry), task, device, whole=False)

    def pattern(self, shape: Shape, device: Any) -> tuple[Mask | None, Score | None]:
        mask, score = self._custom()
        if not (mask or score):
            return super().pattern(shape, device)
        given = self._given(shape, device)
        if mask and score:
            return given[0], given[1]
        return (given, self.named_score(shape[1])) if mask else (self.named_mask(), given)
