"""Whether state that was read is the state that was written: digests of an optimizer's, and what a reader says of it.

Must not read files or ask workers.
"""

from __future__ import annotations

import math
from typing import Any

from .trees import leaves, tree_digest

#: What an optimizer is set to (learning rate and the like), beside what it has gathered.
SETTINGS = "param_groups."


def optimizer_digests(held: dict[str, Any], saved: dict[str, Any]) -> dict[str, str]:
    """Digests of what an optimizer holds and of what was saved for it, which are the same where all of it was read.

    Tensors are compared in the precision in which they are held: torch's own loading gives them that of the weights.
    A setting that only one of two versions knows is left out; what the optimizer has gathered never is.
    """
    import torch

    ours, theirs = dict(leaves(held)), dict(leaves(saved))

    def both(tree: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        return {name: leaf for name, leaf in tree.items() if name in other or not name.startswith(SETTINGS)}

    for name, leaf in ours.items():
        if isinstance(leaf, torch.Tensor) and isinstance(theirs.get(name), torch.Tensor):
            theirs[name] = theirs[name].to(leaf.dtype)
    return {
        "optimizer": tree_digest(both(ours, theirs)),
        "expected_optimizer": tree_digest(both(theirs, ours)),
    }


def all_finite(values: list[Any]) -> bool:
    """Whether all are numbers; "nan" and "inf" are how frames carry what is none."""
    return all(math.isfinite(float(value)) for value in values)


def restored_problem(found: dict[str, Any], parts: list[str]) -> str | None:
    """Why state of these `parts` is not what a reader holds and goes on from; None where it is."""
    if found["weights"] != found["expected"]:
        return "the weights that were loaded are not those that were saved"
    if "optimizer" not in parts:
        return None
    if found.get("optimizer") is None:
        return "nothing is told of the optimizer's state that was loaded"
    if found["optimizer"] != found["expected_optimizer"]:
        return "the optimizer's state that was loaded is not what was saved"
    if not all_finite(found.get("next", [])):
        return "the work does not go on from what was loaded: its next loss or weights are not finite"
    return None
