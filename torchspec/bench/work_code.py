# mypy: disable-error-code="misc"
"""The work that the benchmark times, as a team's own file: read as text by the tool, run beside torch only.

Three kinds: attention (about 0.6 ms), a training step of a small network (about 5 ms), a hundred small additions. With
BENCH_SLOWER=0.05 in its environment each call takes exactly 5 % longer; with BENCH_TAIL=12 one call in twelve takes
three times as long. Every design is asked about the same calls.
"""

import os
import time

import torch

SLOWER = float(os.environ.get("BENCH_SLOWER", "0"))
TAIL = int(os.environ.get("BENCH_TAIL", "0"))


class Stretched(torch.nn.Module):
    """Runs `inner` and spins for as long as the planted change says."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.calls = 0

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        start = time.perf_counter_ns()
        result: torch.Tensor = self.inner(*inputs)
        now = time.perf_counter_ns()
        self.calls += 1
        factor = 3.0 if TAIL and self.calls % TAIL == 0 else 1.0 + SLOWER
        end = start + (now - start) * factor
        while now < end:
            now = time.perf_counter_ns()
        return result


class Attention(torch.nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


class TrainingStep(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers = [torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.Linear(512, 512)]
        self.network = torch.nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode(False), torch.enable_grad():
            for parameter in self.network.parameters():
                parameter.grad = None
            loss = self.network(x.clone()).square().mean()
            loss.backward()
        return loss.detach()


class SmallOperators(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(100):
            x = x + 1.0
        return x


def attention() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    shape = (1, 4, 256, 64)
    return Stretched(Attention()), (torch.randn(shape), torch.randn(shape), torch.randn(shape))


def training_step() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    return Stretched(TrainingStep()), (torch.randn(256, 512),)


def small_operators() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    return Stretched(SmallOperators()), (torch.randn(64),)


WORKS = {"attention": attention, "training_step": training_step, "small_operators": small_operators}


def step_of(name: str):  # type: ignore[no-untyped-def]
    """One call of a work by its name, for the tools that time a function."""
    torch.set_num_threads(1)
    torch.manual_seed(7)
    module, inputs = WORKS[name]()
    quiet = torch.no_grad

    def step() -> None:
        with quiet():
            module(*inputs)

    return step
