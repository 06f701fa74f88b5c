"""Plans and verdicts with INVENTED figures: adopted, large, of several candidates, hostile. None was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from invented_given import arguments, confirmatory, environments, exploratory, lock, records
from invented_plan import BACKENDS, FIGURES, WORKLOADS, plan
from invented_verdict import RULES, decided, verdict

from torchspec.model.plan import Backend, Cell, Exclusion, Plan, Side, Source, SpecFile, Workload
from torchspec.model.verdict import Judgement, Verdict

# What tests ask the fixture `invented` for, from its rooms and this one.
__all__ = [
    "adopted",
    "arguments",
    "confirmatory",
    "decided",
    "environments",
    "exploratory",
    "hostile",
    "lock",
    "plan",
    "records",
    "scaled",
    "several",
    "twice",
    "verdict",
]


def adopted() -> tuple[Plan, Verdict]:
    """Everything passes: one backend, all figures inside their limits."""
    p = plan()
    cells = tuple(c for c in p.cells if c.backend == "cpu")
    keep = {c.id for c in cells}
    p = replace(
        p,
        cells=cells,
        backends=p.backends[:1],
        gates=tuple(replace(g, cells=tuple(c for c in g.cells if c in keep)) for g in p.gates),
    )
    judgements = []
    for j in verdict(plan()).judgements:
        if j.cell not in keep:
            continue
        if j.outcome in {"fail", "inconclusive"}:
            j = replace(
                j,
                outcome="pass",
                contribution="adopt",
                rule=RULES["pass"],
                estimate=0.004,
                low=-0.006,
                high=0.013,
                baseline=100e6 if j.unit == "B" else 0.1,
                candidate_value=100.4e6 if j.unit == "B" else 0.1004,
            )
        judgements.append(j)
    return p, decided(p, tuple(judgements))


def scaled(workloads: int, backends: tuple[str, ...] = BACKENDS) -> tuple[Plan, Verdict]:
    """A plan of `workloads` times the backends, one cell each with eight gates, of which a few do not pass."""
    base = plan()
    cells = tuple(
        Cell(f"{w:06d}{b:02d}beef", f"work_{w:04d}", backend, "infer", {"dtype": "float32"}, f"work_{w:04d} {backend}")
        for w in range(workloads)
        for b, backend in enumerate(backends)
    )
    keys = ("error", "same", "p50", "p95", "throughput", "driver", "allocated", "bits")
    gates = tuple(replace(g, cells=tuple(c.id for c in cells)) for g in base.gates if g.id.removeprefix("g-") in keys)
    p = replace(
        base,
        cells=cells,
        gates=gates,
        exclusions=(),
        claims=(),
        backends=tuple(Backend(b, "required", None) for b in backends),
        workloads=tuple(Workload(f"work_{w:04d}", "python", None, None, None, None, {}) for w in range(workloads)),
    )
    judgements = []
    for g, gate in enumerate(gates):
        key = gate.id.removeprefix("g-")
        for c, cell in enumerate(cells):
            odd = (c * 31 + g * 7) % 97
            outcome = "fail" if odd == 0 else "inconclusive" if odd == 1 else "error" if odd == 2 else "pass"
            if outcome == "fail" and gate.decision == "rollback":
                outcome = "pass"
            contribution = {"pass": "adopt", "fail": gate.decision}.get(outcome, "defer")
            b, cand, unit, e, lo, hi, _ = FIGURES["attention", "infer", key] if key != "bits" else (None,) * 7
            judgements.append(
                Judgement(
                    gate.id,
                    cell.id,
                    "candidate",
                    gate.metric,
                    outcome,  # type: ignore[arg-type]
                    contribution,  # type: ignore[arg-type]
                    RULES[outcome],
                    "",
                    e,
                    lo,
                    hi,
                    0.9,
                    b,
                    cand,
                    unit,
                    {"pairs": 8},
                    evidence=(c,),
                )
            )
    return p, decided(p, tuple(judgements))


def several(*versions: str) -> tuple[Plan, Verdict]:
    """The quickstart with more candidates, of which every second fails nothing: the most that page one has to hold."""
    one = both = verdict()
    p = plan()
    for number, version in enumerate(versions, start=2):
        name = f"candidate-{number}"
        p = replace(p, candidates=(*p.candidates, Side(name, "candidate", version, None, None)))
        judged = []
        for j in one.judgements:
            if j.outcome == "fail" and number % 2 == 0:
                j = replace(j, outcome="pass", contribution="adopt", rule=RULES["pass"])
            judged.append(replace(j, candidate=name))
        more = decided(p, tuple(judged), name)
        both = replace(
            both,
            judgements=both.judgements + more.judgements,
            rows=both.rows + more.rows,
            fleet=both.fleet + more.fleet,
            rehearsals=both.rehearsals | more.rehearsals,
            claims=both.claims | more.claims,
            controls=both.controls + more.controls,
        )
    return p, both


def twice() -> tuple[Plan, Verdict]:
    """Two candidates."""
    return several("2.15.0")


EVIL = (
    "</script><script>alert(1)</script> {{ 7*7 }} {% raw %} <img src=http://evil.example/x.png> "
    "![x](file:///etc/passwd) [y](javascript:alert(1)) `rm` | a | **b** \u202eevil\u202c # h\n- list\n\n<b>html</b> "
    "url(file:///etc/passwd) @import 'http://evil.example/a.css' &lt; $x$ "
    + "W" * 300
    + " שלום עולם 漢字かな交じり文 🙈👩‍👩‍👧"
)


def hostile() -> tuple[Plan, Verdict, dict[str, Any]]:
    """Every text that a spec, a log or a signer controls is markup, template syntax, addresses or a very long word."""
    p = plan()
    rename = {n: f"{n}</code><img src=x>{{{{n}}}}|`{'Q' * 90}" for n, *_ in WORKLOADS}
    p = replace(
        p,
        upgrade=replace(p.upgrade, title=EVIL, owner=EVIL, asks=EVIL, caveats=(EVIL, EVIL)),
        cells=tuple(replace(c, workload=rename[c.workload], axes={"dtype": EVIL}, label=EVIL) for c in p.cells),
        workloads=tuple(replace(w, name=rename[w.name]) for w in p.workloads),
        sources=(
            Source(EVIL, "javascript:alert(1)", EVIL),
            Source("b", "file:///etc/passwd", None),
            Source("c", "https://a.example/?q=<b>&x=\"'", None),
        ),
        claims=tuple(replace(c, name=EVIL, source=EVIL, basis={EVIL: EVIL}) for c in p.claims),
        exclusions=(Exclusion(EVIL, EVIL, EVIL, EVIL, 3),),
        spec=(SpecFile(EVIL, "11" * 32),),
    )
    v = verdict(plan())
    judgements = tuple(replace(j, reason=EVIL, rule=EVIL if j.outcome == "error" else j.rule) for j in v.judgements)
    v = decided(p, judgements)
    v = replace(
        v,
        broken_controls=(
            {"what": EVIL, "baseline": EVIL, "candidate_value": [EVIL], "reason": EVIL, "cell": None, "seq": 4},
        ),
        runs=tuple(r | {"reason": EVIL, "status": EVIL} for r in v.runs),
    )
    environment = environments()
    environment["candidate"]["env"] = {EVIL: EVIL}
    found = replace(exploratory(), reasons=(EVIL,), diff=EVIL + "\n```\n~~~\n" + EVIL)
    return p, v, arguments(registration=found, environments=environment, signer=EVIL, lock=lock(p), records=records(p))
