"""Names every difference between two environments beyond torch and what torch itself brings: broken controls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from torchspec.core.diagnostics import Diagnostic
from torchspec.model.plan import Place
from torchspec.provision.interpreters import span_of
from torchspec.provision.lock import versions

#: Nothing imports the installer while work runs.
NO_PART_OF_THE_WORK = frozenset({"torch", "pip"})
#: Codes that say "the two sides are not comparable": the run goes on without these figures, or not at all.
BROKEN_CONTROLS = frozenset({"TS604", "TS605", "TS606", "TS607"})


@dataclass(frozen=True, slots=True)
class Difference:
    """One undeclared difference; the values are None where a side lacks the thing."""

    what: str
    baseline: str | None
    candidate: str | None
    reason: str


def _fits(version: str, specifiers: Iterable[str]) -> bool:
    try:
        return SpecifierSet(",".join(specifiers)).contains(Version(version), prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return True


def _because_of_torch(
    name: str, ours: str | None, theirs: str | None, a: Mapping[str, Any], b: Mapping[str, Any]
) -> bool:
    """Whether torch itself makes the difference: it pins it, only one torch needs it, or no version suits both."""
    in_a, in_b = a["torch_brings"].get(name), b["torch_brings"].get(name)
    if any(entry is not None and entry["pinned"] for entry in (in_a, in_b)):
        return True
    if ours is None:
        return in_b is not None
    if theirs is None:
        return in_a is not None
    forced_b = in_b is not None and not _fits(ours, in_b["specifiers"])
    forced_a = in_a is not None and not _fits(theirs, in_a["specifiers"])
    return forced_a or forced_b


def differences(
    baseline: Mapping[str, Any], candidate: Mapping[str, Any], may_differ: Iterable[str] = ()
) -> tuple[Difference, ...]:
    """Undeclared differences between two environment locks, by name. `may_differ`: glob patterns of package names."""
    patterns = [pattern.lower().replace("_", "-") for pattern in may_differ]
    ours, theirs = versions(baseline), versions(candidate)
    found = []
    for name in sorted((ours.keys() | theirs.keys()) - NO_PART_OF_THE_WORK):
        one, two = ours.get(name), theirs.get(name)
        if one == two or any(fnmatchcase(name, p) for p in patterns):
            continue
        if _because_of_torch(name, one, two, baseline, candidate):
            continue
        if one is None or two is None:
            reason = "only one side has it, and torch does not bring it"
        elif name in baseline["torch_brings"] and name in candidate["torch_brings"]:
            reason = "one version would suit both torch versions"
        else:
            reason = "torch does not pin it"
        found.append(Difference(name, one, two, reason))
    for what in ("python", "implementation", "platform"):
        if baseline[what] != candidate[what] and not any(fnmatchcase(what, p) for p in patterns):
            found.append(Difference(what, baseline[what], candidate[what], "both sides must run the same interpreter"))
    same = all(baseline[what] == candidate[what] for what in ("python", "implementation", "platform"))
    built = (baseline["executable"], candidate["executable"])
    if same and None not in built and built[0] != built[1] and not any(fnmatchcase("python", p) for p in patterns):
        reason = "the same version of Python, built differently"
        found.append(Difference("python executable", built[0][:12], built[1][:12], reason))
    return tuple(found)


def diff_environments(
    baseline: Mapping[str, Any],
    candidate: Mapping[str, Any],
    may_differ: Iterable[str] = (),
    place: Place | None = None,
) -> tuple[Diagnostic, ...]:
    """`differences` as diagnostics (TS607, broken controls) at the candidate's `place`."""
    out = []
    for one in differences(baseline, candidate, may_differ):
        sides = f"{one.baseline or 'absent'} on the baseline, {one.candidate or 'absent'} on the candidate"
        hint = (
            f'name one version in `frozen`: `package "{one.what}==…"`, or declare it: `may_differ "{one.what}"`'
            if not one.what.startswith(("python", "implementation", "platform"))
            else 'make both environments with the same interpreter, or declare it: `may_differ "python"`'
        )
        message = f"the sides differ in more than torch: {one.what} is {sides} ({one.reason})"
        out.append(Diagnostic("TS607", message, span_of(place), hint=hint))
    return tuple(out)
