"""The rank program's table of commands, and its entry: `HARNESS.py rank --job FILE`, started by torchrun.

Only names; what a command does stands in the module that it comes from.
"""

from __future__ import annotations

from .dist_checkpoint import CHECKPOINT_COMMANDS
from .dist_collective import COLLECTIVE_COMMANDS
from .dist_faults import FAULT_COMMANDS
from .dist_item import ITEM_COMMANDS
from .dist_rank import RankCommand, rank_main
from .dist_recover import RECOVER_COMMANDS
from .dist_train import TRAIN_COMMANDS
from .embedded import Embedded

RANK_COMMANDS: dict[str, RankCommand] = {
    **ITEM_COMMANDS,
    **COLLECTIVE_COMMANDS,
    **TRAIN_COMMANDS,
    **CHECKPOINT_COMMANDS,
    **RECOVER_COMMANDS,
    **FAULT_COMMANDS,
}


def run_rank(argv: list[str], embedded: Embedded) -> int:
    """`argv` is ["--job", FILE]; the exit status of the rank."""
    if len(argv) != 2 or argv[0] != "--job":
        return 2
    return rank_main(argv[1], RANK_COMMANDS, embedded)
