"""Sides: the candidate differs from the baseline in something declared, and no version moves."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchspec.check.spec import CheckedSpec, SideDecl, Text
from torchspec.core.diagnostics import Diagnostic, Label

#: One release and nothing else: 2.14.1, 2.15.0rc1, 2.16.0.dev20261101, 2.14.1+cu130.
EXACT = re.compile(r"[0-9]+(\.[0-9]+){2,}((a|b|rc)[0-9]+)?(\.post[0-9]+)?(\.dev[0-9]+)?(\+[A-Za-z0-9.]+)?")
PINNED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?==(?P<version>[^\s;,*=<>~!]+)")


def find(spec: CheckedSpec) -> Iterator[Diagnostic]:
    sides = [spec.baseline, *spec.candidates]
    for side in sides:
        yield from _version(side)
    for package in spec.frozen.packages:
        yield from _package(package)
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
    if side.torch is not None and not EXACT.fullmatch(side.torch.text):
        yield Diagnostic(
            "TS518",
            f"`{side.torch}` is not one version of torch: it may be another one tomorrow",
            side.torch.span,
            hint='write the version in full, such as "2.14.1" or "2.16.0.dev20261101"',
        )


def _package(package: Text) -> Iterator[Diagnostic]:
    found = PINNED.fullmatch(package.text.strip())
    if found is None:
        name = re.split(r"[^A-Za-z0-9._-]", package.text.strip(), maxsplit=1)[0] or "numpy"
        yield Diagnostic(
            "TS518",
            f"package `{package}` is not one version: it may be another one tomorrow",
            package.span,
            hint=f'pin it: package "{name}==1.2.3"',
        )
