"""From AST to a checked, typed spec: names, structure, units and types, controls, policy. Must not measure anything."""

from torchspec.check.elaborate import check_spec
from torchspec.check.spec import CheckResult

__all__ = ["CheckResult", "check_spec"]
