"""From what a benchmark kept to its answers, its setting and its three files. Must not measure."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict

from torchspec.bench import ours, peers, report
from torchspec.bench import plan as plans
from torchspec.bench.course import ALONE, BUSY, POOLS, TAILED, Kept, Options, steps, told_truths
from torchspec.bench.rates import Answer, rates
from torchspec.bench.targets import targets
from torchspec.harness.environ import cpu_model
from torchspec.harness.run import CONTROL_PAIRS

#: Of so many equal pairs each the two-sided interval is asked whether they differ.
DIFFERENT = 4
CALIBRATED, OWN = "torchspec, calibrated", "torchspec"
OWN_HOW = {
    CALIBRATED: "pairs of fresh workers as the driver takes them, with the spread between equal pairs "
    "known from the pairs of the calibration, as far as the three equal pairs before agree with it; a run takes these "
    "controls once for all its candidates, and their time is not counted",
    OWN: f"the same without a calibration: {CONTROL_PAIRS} equal pairs of the run's own come first, and their "
    "time counts, at what a pair with planted blocks takes",
}
#: Of p95. A peer's ratio is of its own figure, of the centre or of the mean, so that it is not held against this.
TRUTH_OF_TAIL = 3.0


def written(options: Options, kept: Kept) -> str:
    """The table, of what was kept alone; all three files are written."""
    answers = [*_own(options, kept), *_theirs(kept)]
    found = rates(answers, options.limit)
    how = {**OWN_HOW, **peers.HOW}
    setting = _setting(options, kept)
    equal = kept.pairs("equal")
    different = {work: ours.called_different(equal, work, "latency.p50", DIFFERENT) for work in plans.WORKS}
    off = {
        (condition, work): (len(pool), ours.off_by(pool, work, "latency.p50"))
        for condition, pool in ((ALONE, equal), (BUSY, kept.pairs("busy")))
        for work in plans.WORKS
        if pool
    }
    missing = _missing(kept)
    aims = targets(found, CALIBRATED, {"alone": ALONE, "busy": BUSY, "tail": TAILED}, options.limit, different)
    text = report.table(found, missing, setting, how, different, DIFFERENT, off, aims)
    (options.out / "quality.md").write_text(text, encoding="utf-8")
    (options.out / "quality.svg").write_text(report.picture(found), encoding="utf-8")
    held = {"setting": setting, "missing": missing, "answers": [asdict(a) for a in answers]}
    (options.out / "quality.json").write_text(json.dumps(held, indent=1), encoding="utf-8")
    return text


def _missing(kept: Kept) -> dict[str, str]:
    """{peer, with the condition where it is one: why it gave no answer}, by the first reason told."""
    found: dict[str, str] = {}
    for one in kept.steps.values():
        if one.get("missing"):
            name = one["peer"] if one["condition"] == ALONE else f"{one['peer']}, {one['condition']}"
            found.setdefault(name, one["missing"])
    return found


def _own(options: Options, kept: Kept) -> list[Answer]:
    pools = {name: kept.pairs(name) for name in POOLS}
    plain_s, planted_s = ours.usual_seconds(pools["calibration"]), ours.usual_seconds(pools["quiet"])
    asked = [
        (CALIBRATED, "equal", ALONE, (0.0,), "latency.p50"),
        (CALIBRATED, "quiet", ALONE, options.plants, "latency.p50"),
        (CALIBRATED, "busy", BUSY, (0.0, *options.plants), "latency.p50"),
        (CALIBRATED, "tail", TAILED, (0.0,), "latency.p50"),
        (CALIBRATED, "tail", TAILED, (0.0,), "latency.p95"),
        (OWN, "equal", ALONE, (0.0,), "latency.p50"),
        (OWN, "quiet", ALONE, options.plants, "latency.p50"),
        (OWN, "busy", BUSY, (0.0, *options.plants), "latency.p50"),
        (OWN, "still", ALONE, (0.0,), "latency.p95"),
    ]
    found: list[Answer] = []
    for design, name, condition, plants, metric in asked:
        calibrated = pools["still" if metric == "latency.p95" else "calibration"]
        as_in_a_run = name in ("equal", "quiet")
        for planted in plants:
            truth = TRUTH_OF_TAIL if condition == TAILED and metric == "latency.p95" else 1.0 + planted
            for work in plans.WORKS:
                found += ours.comparisons(
                    pools[name],
                    work,
                    metric,
                    planted,
                    options.limit,
                    design=design,
                    condition=condition,
                    truth=truth,
                    min_pairs=options.min_pairs,
                    max_pairs=options.max_pairs,
                    known=ours.spread(calibrated, work, metric) if design == CALIBRATED else None,
                    controls=0 if name == "tail" else CONTROL_PAIRS,
                    pair_s=plain_s if as_in_a_run else None,
                    control_s=planted_s if as_in_a_run else None,
                )
    return found


def _theirs(kept: Kept) -> list[Answer]:
    found = []
    for one in kept.steps.values():
        for work, (verdict, ratio) in one.get("answers", {}).items():
            tailed = one["condition"] == TAILED
            found.append(
                Answer(
                    one["peer"],
                    work,
                    "its own",
                    one["condition"],
                    TRUTH_OF_TAIL if tailed else 1.0 + one["planted"],
                    verdict,
                    None if tailed else ratio,
                    one["seconds"] / len(one["answers"]),
                    None,
                    one["seconds"],
                )
            )
    return found


def _setting(options: Options, kept: Kept) -> dict[str, str]:
    plain = kept.pairs("calibration")
    counts = [f"{len(kept.pairs(name))} {words}" for name, words in POOLS.items()]
    loads = sorted(pair.load for pair in kept.pairs("equal", "quiet") if pair.load is not None)
    spent = sum(one.get("seconds", 0.0) for one in kept.steps.values())
    ends = [one["at"] for one in kept.steps.values()]
    cores = sorted({one["cores"] for one in kept.pieces})
    tools = peers.versions(options.python, options.packages)
    usual = ours.usual_seconds(plain)
    share = sum(pair.timed_s for pair in plain[1:]) / max(1e-9, sum(pair.seconds for pair in plain[1:]))
    return {
        "measured": f"{len(ends)} of {len(steps(options))} steps, {kept.pieces[0]['begun']} to {max(ends)}, "
        f"in {len(kept.pieces)} pieces"
        if ends
        else "nothing",
        "machine": f"{platform.system()} {platform.machine()}, {cpu_model()}, {os.cpu_count()} cores, of which "
        f"{' or '.join(map(str, cores))} could be used",
        "load during pairs on the machine as it was": f"{loads[0]:.1f} to {loads[-1]:.1f}, median "
        f"{loads[len(loads) // 2]:.1f}"
        if loads
        else "not told",
        "versions": ", ".join(f"{name} {version}" for name, version in tools.items()),
        "limit": f"growth <= {options.limit * 100:g} %",
        "pairs": ", ".join(counts),
        "a pair without planted blocks": f"{usual:.1f} s for {len(plans.WORKS)} works together, {share * 100:.0f} % of "
        "it inside timed work"
        if usual is not None
        else "not measured",
        "design": f"{options.min_pairs} to {options.max_pairs} pairs, {options.builds} builds, {options.rounds} rounds "
        f"of {options.block_ms:g} ms; a failure needs as many fresh pairs again",
        "a peer's time": f"{options.peer_s:g} s for a comparison of all works",
        "peers": _of_peers(options, kept),
        "seconds in all": f"{spent:.0f}",
    }


def _of_peers(options: Options, kept: Kept) -> str:
    """How many peers are asked what, how often, and how many of these questions have been put."""
    held = [one for one in kept.steps.values() if "peer" in one]
    answered = sum("answers" in one for one in held)
    wanted = sum(step.peer is not None for step in steps(options))
    about = told_truths(options.peer_truths)
    besides = "".join(f"; {name}" for name in options.peer_conditions)
    each = f"{len(options.peers)}, each asked {options.asked} times about {about}{besides}"
    return f"{each}: {answered} of {wanted} answered"
