"""FlexAttention: a block mask from a mask function (by name or the team's own), and optionally a score modification."""

from __future__ import annotations

from typing import Any

from .masks import Mask, Score
from .team import team_function
from .work import Unsupported
from .work_attention import Attention


class FlexAttention(Attention):
    """Axes as attention's. With `mask custom` the entry, called without arguments, gives the mask function
    (batch, head, query position, key position) -> bool tensor; with `score custom` the score modification
    (score, batch, head, query position, key position) -> score; with both, the two as a pair. Its float64 reference is
    attention spelled out."""

    kind = "flex_attention"
    own_path = "flex_attention"

    def _custom(self) -> tuple[bool, bool]:
        """Whether the mask and the score modification are the team's own."""
        return str(self.axis("mask", "none")) == "custom", self.task.options.get("score") == "custom"

    def _own(self, place: int) -> Any:
        """What the entry gives: the mask (place 0) or the score modification (place 1)."""
        if self.task.entry is None:
            what = ("mask", "score")[place]
            raise Unsupported(
                f'the {what} is custom and the workload names none: kind flex_attention "path:fn"', "backend"
            )
        given: Any = team_function(self.task.team, self.task.entry)()
        return given[place] if all(self._custom()) else given

    def mask(self) -> Mask | None:
        return self._own(0) if self._custom()[0] else super().mask()

    def score(self) -> Score | None:
        return self._own(1) if self._custom()[1] else super().score()

    def reference(self) -> str | None:
        return "dense"
