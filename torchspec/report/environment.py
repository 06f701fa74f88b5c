"""The two environments side by side: what differs first, then what is the same."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from torchspec.model.memo import Section, TableRow
from torchspec.report import build
from torchspec.report.context import Context
from torchspec.report.language import clip, code, soft, strong

_SAME_PACKAGES = 12
_LONGEST = 160  # characters of one value; the ledger holds the rest
_OWN = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")  # each side has its own, so that neither warms the other


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
    names = [n for n in dict.fromkeys([*base, *cand]) if n not in skip]
    pins = {str(p) for body in (base_body, cand_body) for p in (body.get("torch_pins") or ())}
    differing: list[TableRow] = []
    brought: list[str] = []
    surprising = 0
    same: list[tuple[str, str]] = []
    for name in names:
        a, b = base.get(name, ""), cand.get(name, "")
        if a == b:
            if a:
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
                _value(ctx, a),
                _value(ctx, b),
                build.cell((*strong(t.text("differs")), *soft(", " + why if why else ""))),
            )
        )
    rows = [*differing, *_brought(ctx, brought, base, cand)]
    packages = [(n, v) for n, v in same if n.startswith("packages.")]
    for name, value in same:
        if not name.startswith("packages.") or len(packages) <= _SAME_PACKAGES:
            rows.append(build.row(build.cell(code(clip(name, 80))), _value(ctx, value), "", t.text("same")))
    if len(packages) > _SAME_PACKAGES:
        rows.append(
            build.row(
                t.text("{n} more packages", n=len(packages)),
                build.cell(soft(", ".join(f"{n.removeprefix('packages.')} {v}" for n, v in packages))),
                "",
                t.text("same"),
            )
        )
    where = f" ({ctx.candidate_name(candidate)})" if ctx.several else ""
    if not differing and not brought:
        heading = t.text("Environment{where}: nothing differs", where=where)
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
    if name.startswith("env.") and name.removeprefix("env.") in _OWN:
        return t.text("each side has its own, on purpose")
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
