"""The two environments side by side: what differs first, then what is the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from torchspec.model.memo import Block, Section, TableRow
from torchspec.report import build
from torchspec.report.context import Context
from torchspec.report.language import clip, code, soft, strong
from torchspec.report.private import OWN, variable_shown

_FOLDED = 3  # items of one kind that are the same on both sides stand in one row from this many on
_LONGEST = 160  # characters of one value; the ledger holds the rest


def built_for(body: Mapping[str, Any]) -> str:
    """For which devices a side's torch was built: "CUDA 13.0", "ROCm 7.1", "cpu"; empty where it was not recorded."""
    torch = body.get("torch")
    if not isinstance(torch, Mapping) or not torch.get("version"):
        return ""
    if torch.get("hip"):
        return f"ROCm {torch['hip']}"
    return f"CUDA {torch['cuda']}" if torch.get("cuda") else "cpu"


def builds(ctx: Context, candidate: str) -> tuple[str, str] | None:
    """What baseline and candidate were built for, where it differs."""
    one, two = (built_for(ctx.environments.get(s) or {}) for s in (ctx.plan.baseline.id, candidate))
    return (one, two) if one and two and one != two else None


def other_kind(pair: tuple[str, str] | None) -> bool:
    """Whether two builds are for different kinds of devices, not only for other versions of one."""
    return pair is not None and pair[0].split()[0] != pair[1].split()[0]


def flat(body: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """A record's body as dotted names and texts; lists in one line, digests cut to 16."""
    out: dict[str, str] = {}
    for key, value in body.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            out |= flat(value, f"{name}.")
        elif isinstance(value, list | tuple):
            out[name] = ", ".join(str(v) for v in value)
        elif value is None:
            out[name] = ""
        else:
            text = str(value)
            out[name] = text[:16] if len(text) in {40, 64} and all(c in "0123456789abcdef" for c in text) else text
    return out


def section(ctx: Context, candidate: str) -> Section | None:
    """None where no environment of either side is known."""
    t = ctx.t
    base_body = ctx.environments.get(ctx.plan.baseline.id) or {}
    cand_body = ctx.environments.get(candidate) or {}
    if not base_body and not cand_body:
        return None
    base, cand = flat(base_body), flat(cand_body)
    skip = {"side", "candidate", "v", "torch_pins"}
    names = [n for n in dict.fromkeys([*base, *cand]) if n not in skip and n.removeprefix("env.") not in OWN]
    pins = {str(p) for body in (base_body, cand_body) for p in (body.get("torch_pins") or ())}
    differing: list[TableRow] = []
    brought: list[str] = []
    surprising = 0
    same: list[tuple[str, str]] = []
    for name in names:
        a, b = base.get(name, ""), cand.get(name, "")
        if a == b:
            if a and _shown(name):
                same.append((name, a))
            continue
        why = _why(ctx, name, pins, candidate)
        surprising += why is None
        if name.startswith("packages.") and why == t.text("comes with torch"):
            brought.append(name)
            continue
        differing.append(
            build.row(
                build.cell(code(clip(name, 80))),
                _value(ctx, a) if _shown(name) else t.text("not shown"),
                _value(ctx, b) if _shown(name) else t.text("not shown"),
                build.cell((*strong(t.text("differs")), *soft(", " + why if why else ""))),
            )
        )
    rows = [*differing, *_brought(ctx, brought, base, cand)]
    rows += _alike(ctx, same)
    where = f" ({ctx.candidate_name(candidate)})" if ctx.several else ""
    pair = builds(ctx, candidate)
    warned: tuple[Block, ...] = ()
    if pair is not None and other_kind(pair):
        warned = (
            build.paragraph(
                t.words(
                    "*The two builds of torch are for different devices:* {one} and {two}. What differs between them "
                    "in memory, start-up or compilation may come from that, not from the release. `wheels` in the spec "
                    "takes both from one index.",
                    one=pair[0],
                    two=pair[1],
                )
            ),
        )
    if not differing and not brought:
        heading = t.text("Environment{where}: nothing differs", where=where)
    elif warned and not surprising:
        heading = t.text("Environment{where}: the two builds of torch are for different devices", where=where)
    elif surprising:
        heading = t.counted(
            surprising,
            "Environment{where}: {n} difference is neither torch nor what it brings",
            "Environment{where}: {n} differences are neither torch nor what it brings",
            where=where,
        )
    else:
        heading = t.text("Environment{where}: only torch and what it brings differ", where=where)
    return Section(
        f"environment-{candidate}",
        "",
        heading,
        t.words(
            "Differences first. Both sides ran the same harness bytes, inputs and initial weights, with digests "
            "recomputed on each side."
        ),
        (
            *warned,
            build.table(
                "environment",
                t.text("Environment"),
                [
                    build.column(t.text("Item")),
                    build.column(t.text("Baseline")),
                    build.column(t.text("Candidate")),
                    build.column(t.text("Same?")),
                ],
                rows,
            ),
        ),
    )


def _alike(ctx: Context, same: Sequence[tuple[str, str]]) -> list[TableRow]:
    """What is the same on both sides: a row a kind of things, or a row a thing where there are few of a kind."""
    kinds: dict[str, list[tuple[str, str]]] = {}
    for name, value in same:
        kinds.setdefault(name.partition(".")[0], []).append((name, value))
    rows = []
    for kind, items in kinds.items():
        if len(items) < _FOLDED:
            rows += [build.row(build.cell(code(clip(n, 80))), _value(ctx, v), "", ctx.t.text("same")) for n, v in items]
            continue
        words = ", ".join(f"{clip(n.partition('.')[2], 80)} {clip(v, _LONGEST)}" for n, v in items)
        rows.append(build.row(build.cell(code(kind)), words, "", ctx.t.text("same")))
    return rows


def _shown(name: str) -> bool:
    return not name.startswith("env.") or variable_shown(name.removeprefix("env."))


def _value(ctx: Context, text: str) -> Any:
    if not text:
        return build.cell(soft(ctx.t.text("not there")))
    if len(text) == 16 and all(c in "0123456789abcdef" for c in text):
        return build.cell(code(text))
    return build.cell(text if len(text) <= _LONGEST else text[:_LONGEST] + "…")


def _brought(ctx: Context, names: list[str], base: Mapping[str, str], cand: Mapping[str, str]) -> list[TableRow]:
    """The packages that torch itself pins and that differ: one row each, or one for all where there are many."""
    t = ctx.t
    why = build.cell((*strong(t.text("differs")), *soft(", " + t.text("comes with torch"))))
    if len(names) <= 4:
        return [
            build.row(build.cell(code(n)), _value(ctx, base.get(n, "")), _value(ctx, cand.get(n, "")), why)
            for n in names
        ]

    def held(side: Mapping[str, str]) -> str:
        return ", ".join(f"{n.removeprefix('packages.')} {side[n]}" for n in names if side.get(n))

    none = soft(t.text("not there"))
    return [
        build.row(
            t.text("{n} packages that torch pins", n=len(names)),
            build.cell(held(base) or none),
            build.cell(held(cand) or none),
            why,
        )
    ]


def _why(ctx: Context, name: str, pins: set[str], candidate: str) -> str | None:
    """Why a difference was to be expected; None where nothing explains it."""
    t = ctx.t
    package = name.removeprefix("packages.") if name.startswith("packages.") else None
    if name.startswith("torch.") or package == "torch":
        return t.text("as intended")
    if name in {"executable", "executable_digest", "torch_pins", "digest", "path", "python_path"}:
        return t.text("comes with torch")
    if package is not None:
        normal = package.lower().replace("_", "-")
        if normal in {p.lower().replace("_", "-") for p in pins}:
            return t.text("comes with torch")
        allowed = (*ctx.plan.baseline.may_differ, *ctx.side(candidate).may_differ)
        if any(fnmatchcase(normal, pattern.lower()) for pattern in allowed):
            return t.text("declared in the spec")
    return None
