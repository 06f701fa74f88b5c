"""Words that people bring from other tools, and what they are called here. A table; it only makes hints better."""

from __future__ import annotations

from collections.abc import Iterable

_TABLE = """
gpu, gpus, accelerator, device: cuda rocm mps
nvidia, hopper, h100, h200: cuda
amd, hip, mi300x: rocm
metal, apple, mac, macos, m1, m2, m3, m4: mps
host, processor, x86, arm, linux: cpu
multi_gpu, multigpu, cluster, ddp, nccl, gloo: distributed
fp16, half, f16: float16
fp32, single, float, f32: float32
bf16: bfloat16
fp64, double, f64: float64
fp8, float8: float8_e4m3fn float8_e5m2
inference, eval, forward, eager, predict: infer
training, backward, fit: train
compiled_training, compile_train, compiled_train, train_compile: train_compiled
compiled, compilation, torch.compile, inductor: compile
exported, torch.export: export
true, yes, enabled: on
false, no, disabled: off
import, include: use
var, variable, let, set, parameter: param
metadata, labels, tags, annotations: meta
freeze, control, environment, pin, pins: frozen
requirements, requires, dependency, dependencies, pip: package
environ, environment_variable, export_env: env
seeds, random_seed: seed
baseline_version, current, reference, old: baseline
candidate_version, new, target, release: candidate
thresholds, limits, criteria, checks, assertions: gates
threshold, limit, criterion, assert, expect: gates
job, test, benchmark, work, task, model_under_test: workload
team, author, contact, maintainer: owner
question, title, description, goal: asks
dates, period, schedule: window
note, notes, limitation: caveat
link, url, citation: source
suppress, ignore_warning, noqa: silence
budget, timing: measure
version, pytorch: torch
interpreter, venv: python
type, function, entry, module: kind
backends, devices, platform, platforms, targets, where: on
dtypes, precision, precisions: dtype
modes: mode
masks: mask
skip, exclude, excluding, unless: except
batch_size, bs: batch
sequence, seq_len, seqlen, length, sequence_length, context_length, tokens_per_sequence: seq
num_heads, n_heads, nheads: heads
head_size, d_head, dim: head_dim
hidden_size, d_model, width: hidden
vocab, vocab_size, classes: vocabulary
otherwise, then, on_fail, on_failure, fail: else
reason, since, why, comment: because
expires, expiry, before, deadline, end: until
versus, vs, compared, relative_to: against
when, for: at
detects, sensitivity, mde: sees
repeat, times, samples, iterations: repeats
tolerance, margin, plus_minus: within
max, at_most, below, under, less, upper, maximum: <=
min, at_least, above, over, greater, lower, minimum: >=
increase_pct, grows, regression, slowdown, rise: growth
reduction, falls, decline, loss_of: drop
faster, improvement: speedup
equal, equals, same, deterministic, bitwise, exact: identical
succeeds, works, passes, true, pass: holds
latency, latency.mean, latency.avg, latency.median, runtime, duration: latency.p50 step.time
latency.p90, tail: latency.p95
memory, vram, memory.peak, memory.max, peak_memory, rss: memory.driver_peak memory.reserved_peak memory.allocated_peak
tps, qps, tokens_per_second, samples_per_second, speed: throughput
determinism, reproducibility: determinism.output determinism.gradient
use_deterministic_algorithms, forced: deterministic_algorithms determinism.output_forced determinism.gradient_forced
error, error.abs, atol, max_abs_error: error.max_abs
error.rel, rtol: error.max_rel
loss: loss.final
graph_breaks: compile.graph_breaks
skip_release, wait, hold, postpone: defer
revert, undo, back_out, block, reject, deny, stop: rollback
limit_to, canary, partial, quarantine, warn: isolate
"""
#: Units that are spelled in words, or with other letters.
_UNITS = """
percent, pct, percentage, per_cent: %
seconds, second, secs, sec: s
minutes, minute, mins, m: min
hours, hour, hrs, hr: h
milliseconds, millisecond, millis, msec, msecs, MS, Ms: ms
microseconds, microsecond, micros, usec, usecs: us
nanoseconds, nanosecond, nanos, nsec: ns
bytes, byte: B
KB, kb, kilobytes, Kb: kB
mb, Mb, megabytes: MB
gb, Gb, gigabytes, G: GB
tb, Tb, terabytes: TB
kib, Kib, KIB, kiB: KiB
mib, Mib, MIB, M: MiB
gib, Gib, GIB: GiB
tib, Tib, TIB: TiB
times, fold, X: x
points, percentage_points, PP: pp
db, DB, decibel, decibels: dB
ulps, ULP: ulp
"""


def _read(table: str) -> dict[str, tuple[str, ...]]:
    made: dict[str, tuple[str, ...]] = {}
    for line in table.strip().split("\n"):
        names, _, here = line.partition(": ")
        for name in names.split(", "):
            made[name] = (*made.get(name, ()), *here.split(" "))
    return made


def called_here(name: str, known: Iterable[str]) -> list[str]:
    """What `name` is called in this language, of the names that are known where it stands."""
    options = set(known)
    bare = name.lower().removeprefix("torch.")
    meant = [bare] if bare != name and bare in options else _read(_TABLE).get(name.lower(), ())
    return [word for word in meant if word in options]


def unit_called(name: str) -> str | None:
    """The unit that `name` spells, None where it spells none."""
    return next(iter(_read(_UNITS).get(name, ())), None)
