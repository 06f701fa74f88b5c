"""One torch operator by its dotted name, called with keyword arguments that the workload's shape spells out.

Each axis but `operator` and `dtype` is an argument of its own name; what its text says:

    1x128256                          a tensor of the cell's dtype, standard normal (one dimension: 4096 float32)
    16x64 float8_e4m3fn               a tensor of that dtype (integers: 0 to 9, or `below 100`)
    64x32 bfloat16 transposed         its last two dimensions swapped, not copied (column-major)
    32x32 symmetric                   A times its own adjoint, plus the identity: positive definite
    values 8 16 24 int32              these numbers, as one tensor
    4x4, 4x8 float32                  a list of tensors (of one: a comma behind it)
    16, -1, true, none, 1 2 1 2       plain values; several numbers are a tuple
    bfloat16, nn.functional.ScalingType.TensorWise, 'constant'    a dtype, a name below torch, a text

The text is read word by word and never evaluated. Must not know what an operator means.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any

from .modes import BACKWARD
from .trees import tensors
from .work import Job, ModuleJob, Unsupported, Work

SHAPE_TEXT = re.compile(r"[0-9]+(x[0-9]+)*")
WORDS = {"true": True, "false": False, "none": None}
FEWEST_BITS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")


def below_torch(name: str) -> Any:
    """What `name` ("softmax", "nn.functional.pad", "linalg.qr") is below torch. Raises Unsupported where it is not."""
    import torch

    found: Any = torch
    for part in name.removeprefix("torch.").split("."):
        found = None if part.startswith("_") else getattr(found, part, None)
        if found is None:
            raise Unsupported(f"torch {torch.__version__} has no torch.{name.removeprefix('torch.')}")
    return found


def _number(word: str) -> Any:
    for read in (int, float):
        with contextlib.suppress(ValueError):
            return read(word)
    return None


def plain_argument(text: str) -> Any:
    """A value that is no tensor: number, tuple of numbers, true, false, none, 'text', a dtype or a name below torch."""
    words = text.split()
    numbers = [_number(word) for word in words]
    if words and None not in numbers:
        return numbers[0] if len(numbers) == 1 else tuple(numbers)
    if text in WORDS:
        return WORDS[text]
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1]
    return below_torch(text)


def _words_of_tensor(words: list[str]) -> dict[str, Any]:
    """{"dtype", "below", "transposed", "symmetric"} of the words after a shape. Raises ValueError for another word."""
    import torch

    told: dict[str, Any] = {"dtype": None, "below": 10, "transposed": False, "symmetric": False}
    pending = list(words)
    while pending:
        word = pending.pop(0)
        if word in ("transposed", "symmetric"):
            told[word] = True
        elif word == "below" and pending:
            told["below"] = int(pending.pop(0))
        elif isinstance(getattr(torch, word, None), torch.dtype):
            told["dtype"] = getattr(torch, word)
        elif word.startswith(("float", "int", "uint", "complex", "bfloat")):
            raise Unsupported(f"torch {torch.__version__} has no dtype {word}")
        else:
            raise ValueError(f"an argument's text has no word {word}")
    return told


def tensors_argument(text: str, usual: Any) -> Any:
    """The tensor that an argument's text describes, or the list of tensors; None for a plain value."""
    parts = [part for part in text.split(",") if part.strip()]
    if "," not in text or text.startswith("'"):
        return tensor_argument(text, usual)
    made = [tensor_argument(part, usual) for part in parts]
    if any(one is None for one in made):
        raise ValueError(f"only tensors make a list, and {text} has something else in it")
    return made


def tensor_argument(text: str, usual: Any) -> Any:
    """The tensor that an argument's text describes, in dtype `usual` where it names none; None for a plain value."""
    import torch

    words = text.split()
    if words[:1] == ["values"]:
        numbers = [_number(word) for word in words[1:] if _number(word) is not None]
        told = _words_of_tensor([word for word in words[1:] if _number(word) is None])
        return torch.tensor(numbers, dtype=told["dtype"] or usual)
    # One number alone is a plain value, unless words of a tensor follow.
    if (
        not words
        or not SHAPE_TEXT.fullmatch(words[0])
        or ("x" not in words[0] and (len(words) == 1 or _number(words[1]) is not None))
    ):
        return None
    told = _words_of_tensor(words[1:])
    shape, dtype = [int(size) for size in words[0].split("x")], told["dtype"] or usual
    if dtype.is_complex:
        made = torch.randn(shape, dtype=dtype)
    elif dtype.is_floating_point:
        made = torch.randn(shape)
    else:
        made = torch.randint(0, told["below"], shape)
    if told["symmetric"]:
        made = made @ made.mH + torch.eye(shape[-1], dtype=made.dtype)
    made = made.to(dtype)
    return made.mT.contiguous().mT if told["transposed"] else made


class Operator(Work):
    """Axes: operator, dtype, and one for each argument. Output: what the operator returns."""

    kind = "operator"
    items_unit = "calls"
    input_gradients = True
    has_float64 = False

    def _arguments(self) -> dict[str, str]:
        return {k: str(v) for k, v in self.task.axes.items() if k not in ("operator", "dtype", "ranks")}

    def dtype(self) -> Any:
        """None: each tensor keeps the dtype that its text names."""
        return None

    def _usual(self) -> Any:
        import torch

        return super().dtype() or torch.float32

    def inputs(self) -> Any:
        made = {name: tensors_argument(text, self._usual()) for name, text in self._arguments().items()}
        return {name: value for name, value in made.items() if value is not None}

    def module(self, path: str | None) -> Any:
        import torch

        function = below_torch(path or str(self.task.axes["operator"]))
        texts = self._arguments()
        given = self.inputs()
        plain = {name: plain_argument(text) for name, text in texts.items() if name not in given}

        class Call(torch.nn.Module):  # type: ignore[misc]
            def forward(self, **operands: Any) -> Any:
                return function(**operands, **plain)

        return Call()

    def job(self, frozen: dict[str, Any], mode: str, path: str | None, device: Any, dtype: Any) -> Job:
        for name, value in tensors(frozen["inputs"]).items():
            if dtype is not None and str(value.dtype).removeprefix("torch.") in FEWEST_BITS:
                raise Unsupported(f"{name} is stored as {value.dtype}: the operator has no {dtype} form", "backend")
        job = OperatorJob(self, frozen, mode, path, device, dtype)
        job.other_dtype = dtype
        if not tensors(job.inputs):
            raise ValueError(f"operator {self.task.axes['operator']} is given no tensor")
        if mode in BACKWARD and not any(t.requires_grad for t in tensors(job.inputs).values()):
            raise Unsupported(f"no argument of {self.task.axes['operator']} has a gradient", "backend")
        return job


class OperatorJob(ModuleJob):
    """A call of the operator. In another dtype than the cell's own (a reference) it may not exist, and then says so."""

    other_dtype: Any = None

    def results(self, gradients: bool) -> dict[str, dict[str, Any]]:
        try:
            return super().results(gradients)
        except (RuntimeError, NotImplementedError) as error:
            if self.other_dtype is None:
                raise
            raise Unsupported(f"the operator has no {self.other_dtype} form: {error}", "backend") from error
