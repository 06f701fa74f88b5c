"""Sides: the candidate differs from the baseline in something declared, and no version moves.

Packages that move are refused with the frozen work, before policy.
"""

from __future__ import annotations

from collections.abc import Iterator

from torchspec.check.spec import CheckedSpec, SideDecl
from torchspec.core.diagnostics import Diagnostic, Label
from torchspec.core.versions import is_exact


def find(spec: CheckedSpec) -> Iterator[Diagnostic]:
    sides = [spec.baseline, *spec.candidates]
    for side in sides:
        yield from _version(side)
    for index, candidate in enumerate(spec.candidates):
        twin = next((o for o in sides[: index + 1] if _same(o, candidate)), None)
        if twin is not None and not candidate.may_differ:
            what = "baseline" if twin.role == "baseline" else "another candidate"
            yield Diagnostic(
                "TS517",
                f"this candidate is the same as {what}",
                candidate.span,
                labels=(Label(twin.span, what),),
                hint="give it another version, another `path` of the workload, or another interpreter",
            )


def _same(one: SideDecl, other: SideDecl) -> bool:
    def key(side: SideDecl) -> tuple[str | None, ...]:
        return tuple(t.text if t is not None else None for t in (side.torch, side.python, side.path))

    return key(one) == key(other)


def _version(side: SideDecl) -> Iterator[Diagnostic]:
    if side.torch is not None and not is_exact(side.torch.text):
        yield Diagnostic(
            "TS518",
            f"`{side.torch}` is not one version of torch: it may be another one tomorrow",
            side.torch.span,
            hint='write the version in full, such as "2.14.1" or "2.16.0.dev20261101"',
        )
