"""The dispatch: which command is which function, and what happens when one of ours breaks."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from torchspec import __version__


def _report_bug(command: str, error: BaseException) -> int:
    """Keep the traceback in a file: a traceback shown to a user is a bug of ours on top of the first one."""
    import tempfile
    import traceback

    from torchspec.cli.exits import Exit
    from torchspec.cli.output import say

    with tempfile.NamedTemporaryFile(
        "w", prefix="torchspec-bug-", suffix=".txt", delete=False, encoding="utf-8"
    ) as stream:
        stream.write(f"torchspec {__version__}, Python {sys.version}\n\n")
        traceback.print_exception(error, file=stream)
    say(f"torchspec: a bug of ours in `{command}`: {type(error).__name__}: {error}", sys.stderr)
    say(f"  The details are in {stream.name}; please report them. Nothing was decided.", sys.stderr)
    return Exit.BUG


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the return value is the exit status."""
    words = sys.argv[1:] if argv is None else list(argv)
    if words == ["--version"]:  # without the parser, which costs more than everything else of it
        print(f"torchspec {__version__}")
        return 0
    from torchspec.cli.exits import Exit
    from torchspec.cli.output import say
    from torchspec.cli.parser import build_parser

    parser = build_parser(words[0] if words else None)
    arguments = parser.parse_args(words)
    if arguments.command is None:
        parser.print_help()
        return Exit.SPEC
    try:
        from importlib import import_module

        module = import_module(f"torchspec.cli.{arguments.where}")
        return int(getattr(module, arguments.command)(arguments))
    except KeyboardInterrupt:
        say("\ntorchspec: interrupted; what was measured is kept. `torchspec run` again resumes.", sys.stderr)
        return Exit.INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK_ON_CLOSED_PIPE
    except Exception as error:
        return _report_bug(arguments.command, error)


OK_ON_CLOSED_PIPE = 0
