"""Each kind of work in both real torch versions: right against its float64 reference, and on the path that it says."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from torchspec.core.canon import sha256_hex

ROOT = Path(__file__).resolve().parents[2]
TEAM = """
import time

import torch


def every_third():
    return lambda b, h, q, k: (q >= k) & ((q - k) % 3 == 0)


def lean():
    return lambda s, b, h, q, k: s - 0.05 * (q - k)


def both():
    return every_third(), lean()


class Spelled(torch.nn.Module):
    def forward(self, query, key, value):
        scores = query @ key.mT / query.shape[-1] ** 0.5
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        return scores.masked_fill(~seen, float("-inf")).softmax(-1) @ value


def spelled():
    return Spelled()


def old(width):
    return torch.nn.Sequential(torch.nn.Linear(width, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))


def build(width, rows=3):
    def loss(output, inputs):
        return output.square().mean()

    return old(width), (torch.randn(rows, width),), loss, lambda weights: torch.optim.SGD(weights, lr=0.1)


def lossy(width, rows=3):
    return build(width, rows)[:3]


class Sleeps(torch.optim.SGD):
    def step(self):
        time.sleep(0.05)
        super().step()


def sleeps(width):
    return (*lossy(width), lambda weights: Sleeps(weights, lr=0.1))


def accuracy(output, inputs):
    assert output.shape[0] == inputs[0].shape[0]
    return (output.shape[1] == 2) * 0.75


def lines(data):
    return torch.nn.Embedding(10, 4), (torch.tensor([len(line) for line in data]),)


def stepper(width, device):
    module = torch.nn.Linear(width, 2).to(device)
    optimizer, rows = torch.optim.SGD(module.parameters(), lr=0.1), torch.randn(5, width, device=device)

    def step():
        optimizer.zero_grad()
        loss = module(rows).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


class Next(torch.nn.Module):
    def __init__(self, context):
        super().__init__()
        self.head = torch.nn.Linear(context, 7)

    def forward(self, rows):
        return self.head(rows)


def decoder(context, batch=2):
    return Next(context), (torch.randn(batch, context),)


def first_token(module, inputs):
    assert not torch.is_grad_enabled()
    return module(*inputs)


def images(batch, size):
    return torch.nn.Conv2d(3, 3, 3), (torch.rand(batch, 3, size, size),)


class Breaks(torch.nn.Module):
    def forward(self, rows):
        rows = rows + 1
        torch._dynamo.graph_break()
        return rows * 2


def breaks(width):
    return Breaks(), (torch.randn(3, width),)
"""
SLICE = "aa\nbbb\nc\nd\n"
MASKS = ("none", "causal", "sliding_window", "block_sparse", "document", "prefix")

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture(scope="module", params=["baseline_python", "candidate_python"])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    python = request.getfixturevalue(request.param)
    team = tmp_path_factory.mktemp("team")
    (team / "team_code.py").write_text(TEAM)
    (team / "other.py").write_text("from team_code import decoder\n")
    (team / "slice.jsonl").write_text(SLICE)
    program = ROOT / "tests" / "harness" / "kinds_program.py"
    command = [str(python), str(program), str(ROOT / "torchspec" / "harness"), str(team), sha256_hex(SLICE.encode())]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    given = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=540, check=False)
    lines = [line for line in given.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, given.stderr[-2000:]
    return json.loads(lines[-1].removeprefix("FOUND "))  # type: ignore[no-any-return]


def test_every_mask_gives_the_same_attention_on_every_path(found: dict[str, Any]) -> None:
    for mask in MASKS:
        for name in (f"attention {mask}", f"flex {mask}", f"flex beside {mask}"):
            assert found[name].get("output", 1.0) < 1e-5, (name, found[name])
    assert found["flex custom"]["output"] < 1e-5
    for score in ("relative_bias", "alibi", "soft_cap"):
        assert found[f"flex {score}"]["output"] < 1e-5


def test_a_teams_own_mask_score_and_old_path(found: dict[str, Any]) -> None:
    for name in ("flex own score", "flex own both", "flex beside own"):
        assert found[name].get("output", 1.0) < 1e-5, (name, found[name])


def test_mixed_precision_is_felt_by_attention_and_no_more_than_that(found: dict[str, Any]) -> None:
    for kind in ("attention", "flex_attention"):
        assert 1e-5 < found[f"{kind} mixed"].get("output", 1.0) < 5e-2, found[f"{kind} mixed"]


def test_what_attention_cannot_do_is_unsupported_with_the_reason(found: dict[str, Any]) -> None:
    assert "does not support backward on CPU" in found["flex train"]["unsupported"]
    assert "no score modification" in found["sdpa with a score"]["unsupported"]


def test_the_evidence_tells_which_path_the_loss_took(found: dict[str, Any]) -> None:
    for form in ("functional", "module"):
        for part in ("output", "gradient"):
            assert found[f"loss {form} default"][part] < 1e-4
            assert found[f"loss {form} none"][part] < 1e-4
        assert found[f"loss {form} default"]["path"].startswith("chunked")
        assert found[f"loss {form} none"]["path"] == "unfused: the whole logits (64 x 500) were made"
    assert found["loss given"] == {"batch_chunk_size": 16, "acc_policy": "accurate", "chunking_method": None}
    for name in ("chunks", "policy"):
        assert found[f"loss {name}"]["path"].startswith("chunked")
        assert found[f"loss {name}"]["output"] < 1e-4
    assert found["loss beside"]["path"].startswith("unfused")
    losses = found["loss steps"]["losses"]
    assert len(losses) == 6
    assert losses[-1] < losses[0]


def test_the_loss_comes_with_the_logits_of_its_head(found: dict[str, Any]) -> None:
    assert found["loss logits"]["rows"] == [16, 500]
    assert found["loss logits"]["apart"] < 1e-5
    assert found["loss mixed logits"]["dtype"] == "torch.bfloat16"
    assert 1e-5 < found["loss mixed logits"]["apart"] < 5e-2


def test_a_distributed_checkpoint_of_one_process(found: dict[str, Any]) -> None:
    told = found["checkpoint"]
    assert told.get("same"), told
    assert ".metadata" in told["files"]
    assert any(name.endswith(".distcp") for name in told["files"])
    assert told["damaged"]
    assert told["other"] == "the distributed checkpoint gives another optimizer state than was saved"


def test_operators_by_name(found: dict[str, Any]) -> None:
    for name in ("softmax", "pad", "linear", "quantile", "complex solve", "cat", "list of one"):
        assert found[name].get("output", 1.0) < 1e-5, (name, found[name])
        assert (found[name]["items"], found[name]["unit"]) == (1, "calls")
    assert found["complex solve"]["gradient"] < 1e-4
    assert found["pad"]["operators"].get("aten.constant_pad_nd", 0) >= 1
    assert found["scaled_mm"]["output"] < 1e-2
    assert "has no torch.float64 form" in found["experts"]["unsupported"]


def test_text_of_an_operator_is_never_evaluated(found: dict[str, Any]) -> None:
    assert "has no torch.softmaxx" in found["no such"]["unsupported"]
    assert found["no such word"]["failed"] == "ValueError: an argument's text has no word sideways"
    assert "unsupported" in found["not evaluated"]


def test_a_cached_token_is_the_one_that_prefill_gives(found: dict[str, Any]) -> None:
    for context in (32, 64):
        told = found[f"decode {context}"]
        assert told["apart"] < 1e-5
        assert (told["first"], told["items"], told["unit"]) == ([2, 100], 2, "tokens")


def test_the_autoencoder_pads_for_each_convolution(found: dict[str, Any]) -> None:
    for frames in (1, 3):
        assert found[f"autoencoder {frames}"]["output"] < 1e-5
        assert found[f"autoencoder {frames}"]["path"] == "14 padding calls in one step"


def test_the_team_code_in_every_form(found: dict[str, Any]) -> None:
    assert found["team"]["gradient"] < 1e-5
    assert (found["team"]["items"], found["team"]["unit"]) == (3, "rows")
    assert found["team beside"]["output"] < 1e-5
    assert 1e-5 < found["team mixed"]["output"] < 1e-1, "mixed precision is felt, and no more than that"
    assert found["team data"]["output"] == 0
    assert "is not the slice that the spec froze" in found["team other data"]["failed"]
    assert found["team step"]["losses"][-1] < found["team step"]["losses"][0]
    assert found["team step"]["unit"] == "rows"
    assert "needs `counts`" in found["team step without counts"]["unsupported"]


def test_a_size_that_the_team_code_never_gets_is_no_label(found: dict[str, Any]) -> None:
    """`check` refuses what it can see; a class or a decorated function is asked here."""
    told = found["team other size"]["failed"]
    assert told.startswith("TypeError: build takes no lenght: every value of it would be the same work"), told
    assert found["team unread data"]["failed"].startswith("TypeError: build takes no data: every value of it")
    assert "old takes no" not in found["team beside less"].get("failed", ""), "what stands beside need not take all"
    assert found["team beside less"]["output"] < 1e-5
    assert found["team no size"]["failed"].startswith("TypeError: build needs width, and the workload does not say it")
    assert "stepper takes no dtype" in found["team step of a dtype"]["failed"]


def test_the_team_code_counts_as_the_kind_it_stands_in_for(found: dict[str, Any]) -> None:
    counted = {
        name: (found[name]["items"], found[name]["unit"]) for name in ("team tokens", "team images", "team rows")
    }
    assert counted == {"team tokens": (2, "tokens"), "team images": (3, "images"), "team rows": (5, "samples")}
    assert (found["team counts"]["items"], found["team counts"]["unit"]) == (3, "rows")


def test_the_teams_decoder_gives_logits_and_a_first_token(found: dict[str, Any]) -> None:
    assert found["team tokens"]["names"] == ["logits"]
    assert found["team tokens"]["first"] == [2, 7]
    assert "no function first_token(module, inputs)" in found["team without first token"]["unsupported"]


def test_a_whole_training_step_has_the_optimizer_in_it(found: dict[str, Any]) -> None:
    """Where step.time is asked for, and where the team or the kind brings an optimizer; the weights stay as frozen."""
    told = {name: one for name, one in found.items() if name.startswith("step")}
    assert [name for name, one in told.items() if not one.get("kept")] == [], told
    assert told["step of a sleeping optimizer"]["seconds"] >= 0.05
    whole = {name for name, one in told.items() if one["optimizer"]}
    assert whole == {
        "step that is asked for", "step of the loss asked for", "step of a checkpoint", "step of the team's checkpoint",
    }  # fmt: skip


def test_everything_that_work_holds_is_on_the_device_it_was_built_on(found: dict[str, Any]) -> None:
    """Built on torch's device "meta", which is no CPU and is everywhere: nothing of it falls back in silence."""
    placed = {name: one for name, one in found.items() if isinstance(one, dict) and "elsewhere" in one}
    kinds = {"attention", "flex", "loss", "softmax", "decode", "autoencoder", "team"}
    assert {name.split()[0] for name in placed} >= kinds
    assert {name: one["elsewhere"] for name, one in placed.items() if one["elsewhere"]} == {}
    assert [name for name, one in placed.items() if not one["held"]] == [], "what is built on the CPU is seen there"


def test_what_is_right_the_team_says(found: dict[str, Any]) -> None:
    assert found["team accuracy"] == {"value": 0.75, "by": "accuracy of team_code.py"}
    assert "no answers that are right or wrong" in found["no accuracy"]["unsupported"]


def test_a_kernel_does_not_run_on_a_cpu_in_silence(found: dict[str, Any]) -> None:
    assert found["kernel"]["unsupported"] == "a kernel in triton does not run on a CPU"


def test_gates_beyond_the_first_export(found: dict[str, Any]) -> None:
    told = found["dynamic export"]
    assert (told["holds"], told["shapes"], told["dimensions"]) == (True, 3, 1)
    assert "one shape only" in found["dynamic export of one shape"]["unsupported"]
    assert "unsupported" in found["onnx"] or found["onnx"]["holds"]
    place = found["breaks"]["places"][0]
    assert (place["file"], place["code"]) == ("team_code.py", "torch._dynamo.graph_break()")
