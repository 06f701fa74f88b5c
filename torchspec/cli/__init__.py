"""The command line: arguments, printing, exit codes. Nothing below it prints or exits.

Importing this package is cheap on purpose: `torchspec --version` and `check` load nothing heavy.
"""

from torchspec.cli.main import main

__all__ = ["main"]
