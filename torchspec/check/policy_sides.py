"""Sides: the candidate differs from the baseline in something declared, and no version moves.

Packages that move are refused with the frozen work, before policy.
"""

from __future__ import annotations

from collections.abc import Iterator

from torchspec.check.spec import CheckedSpec, SideDecl
from torchspec.core.diagnostics import Diagnostic, Label
from torchspec.core.versions import is_exact


def find(spec: CheckedSpec) -> Iterator[Diagnostic]:
    for side in (spec.baseline, *spec.candidates):
        yield from _version(side)
    for candidate in spec.candidates:
        if _same(spec.baseline, candidate) and not candidate.may_differ:
            yield Diagnostic(
                "TS517",
                "this candidate is the same as the baseline",
                candidate.span,
                labels=(Label(spec.baseline.span, "the baseline"),),
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
