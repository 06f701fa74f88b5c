"""The modes of a cell: which of them go backward, and which are compiled. A table; the catalog says who has which."""

from __future__ import annotations

#: A step is a forward and a backward pass, and gradients are compared too.
BACKWARD = ("train", "train_compiled")
#: The work is compiled by torch.compile before anything is measured.
COMPILED = ("compile", "train_compiled")
