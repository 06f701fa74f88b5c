"""The parser: every command with its arguments, and which function it is. Cheap: no stage is imported."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any, NoReturn

from torchspec import __version__
from torchspec.cli.exits import Exit
from torchspec.cli.output import FORMATS, say

EPILOG = """\
a first run:
  torchspec compile specs/quickstart.tspec
  torchspec run
  torchspec verify out/quickstart/memo/latest

exit status: 0 adopt, 10 isolate, 20 defer, 30 rollback, 40 exploratory,
2 the spec is wrong, 3 the tool or a machine failed, 4 verify found something.
`torchspec explain exits` says more.
"""


class _Parser(argparse.ArgumentParser):
    """A parser that says which command was probably meant."""

    def error(self, message: str) -> NoReturn:
        from torchspec.core.near import nearest

        wrong = re.search(r"argument COMMAND: invalid choice: '(.*?)' \(choose from (.*)\)", message, re.DOTALL)
        if wrong is not None:
            close = nearest(wrong[1], re.findall(r"[a-z]+", wrong[2]))
            hint = f"did you mean `torchspec {close}`?" if close else "`torchspec --help` lists the commands"
            say(f"torchspec: there is no command '{wrong[1]}'; {hint}", sys.stderr)
            raise SystemExit(Exit.SPEC)
        super().error(message)


class _Unasked(argparse.ArgumentParser):
    """Takes the arguments of a command that was not asked for, and forgets them: `check` need not pay for them."""

    _nothing = argparse.Action([], "nothing")

    def __init__(self) -> None:
        pass

    def add_argument(self, *words: Any, **options: Any) -> argparse.Action:
        return self._nothing

    def set_defaults(self, **values: Any) -> None:
        pass


def _add_spec(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", help="the main .tspec file")
    _add_set(parser)


def _add_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter's value, recorded in plan and memo",
    )


def _add_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="out", metavar="DIR", help="where compiled specs live (default: out)")


def _add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        nargs="?",
        help="a compiled spec: its name, its folder or its .tspec file (default: the last compiled)",
    )
    _add_out(parser)


def build_parser(asked: str | None = None) -> argparse.ArgumentParser:
    """The whole command line; where `asked` is the name of a command, that command alone."""
    parser = _Parser(
        prog="torchspec",
        description="Decide, workload by workload and backend by backend, whether a new PyTorch may run your work.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"torchspec {__version__}")
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colour (NO_COLOR is heeded)"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")

    def command(name: str, where: str, about: str) -> argparse.ArgumentParser:
        if asked is not None and name != asked:
            return _Unasked()
        sub = commands.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".")
        sub.set_defaults(where=where)
        return sub

    check = command("check", "authoring", "check specs without running anything")
    check.add_argument("specs", nargs="+", metavar="SPEC")
    _add_set(check)
    check.add_argument("--format", choices=FORMATS, default="text")
    compile_ = command("compile", "authoring", "check a spec and emit plan, lock and one harness file a backend")
    _add_spec(compile_)
    _add_out(compile_)
    compile_.add_argument("--format", choices=FORMATS, default="text")
    compile_.add_argument("--timestamp", metavar="URL", help="have the plan stamped by this RFC 3161 authority")
    fmt = command("fmt", "authoring", "write specs in their canonical form")
    fmt.add_argument("specs", nargs="+", metavar="SPEC")
    fmt.add_argument("--check", action="store_true", help="change nothing; exit 2 where a file would change")
    fmt.add_argument("--diff", action="store_true", help="change nothing; print what would change")
    explain = command("explain", "authoring", "explain a code, a metric, a workload, `decisions`, `gates` or `exits`")
    explain.add_argument("what", metavar="WHAT", help="TS201, latency.p95, python, decisions, gates, exits, …")
    explain.add_argument("spec", nargs="?", metavar="SPEC", help="for `decisions` and `gates`")
    _add_set(explain)
    diff = command("diff", "authoring", "say what a reviewer must know about a changed spec")
    diff.add_argument("old", help="a spec, a git revision, or A...B with the spec after it")
    diff.add_argument("new", help="a spec; after revisions, the spec's path in the repository")
    diff.add_argument("--json", action="store_true")
    diff.add_argument("--exit-code", action="store_true", help="exit 2 where a limit was loosened or a gate dropped")
    schema = command("schema", "authoring", "print a published JSON Schema, or their names")
    schema.add_argument("name", nargs="?")
    docs = command("docs", "authoring", "print the reference as Markdown")
    docs.add_argument("topic", nargs="?", metavar="TOPIC")
    init = command("init", "authoring", "write a commented starting spec")
    init.add_argument("spec", help="the file to write")
    init.add_argument("--baseline", default="2.13.0", metavar="VERSION")
    init.add_argument("--candidate", default="2.14.1", metavar="VERSION")
    init.add_argument("--owner", default="")
    init.add_argument("--backend", action="append", default=[], metavar="NAME")
    init.add_argument(
        "--entry", default="", metavar="FILE.py:FUNCTION", help="your own code, returning (module, inputs)"
    )
    completion = command("completion", "authoring", "print a shell completion script")
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))

    run = command("run", "running", "measure both sides, judge, decide, and write the signed memo")
    _add_target(run)
    run.add_argument(
        "--only", action="append", default=[], metavar="WORKLOAD|CELL", help="measure these only (the rest is not_run)"
    )
    run.add_argument("--stage", help="measure one stage of the window only")
    run.add_argument("--key", metavar="FILE", help="the signing key (default: your own, made at first use)")
    judge = command("judge", "running", "judge the evidence again, measuring nothing")
    _add_target(judge)
    judge.add_argument("--json", action="store_true")
    memo = command("memo", "running", "write and sign the memo again from the evidence, measuring nothing")
    _add_target(memo)
    memo.add_argument("--key", metavar="FILE")
    for sub in (run, memo):
        sub.add_argument("--lang", choices=("en", "es", "pt"), default="en", help="the memo's language")
        sub.add_argument("--templates", metavar="DIR", help="your own templates and logo")
        sub.add_argument("--timestamp", metavar="URL", help="have the signature stamped by this RFC 3161 authority")
    env = command("env", "running", "provision both environments of a spec and say where they are")
    _add_spec(env)
    env.add_argument("--export", action="store_true", help="print shell assignments for the test suite")
    ledger = command("ledger", "running", "show, verify or export evidence")
    ledger.add_argument("action", choices=("show", "verify", "export"))
    _add_target(ledger)
    ledger.add_argument("--kind", help="show: records of this kind only")
    ledger.add_argument("--format", choices=("csv", "parquet", "intoto"), default="csv", help="export")
    ledger.add_argument("--to", metavar="FILE", help="export: where to")
    ingest = command("ingest", "running", "take in evidence that an emitted harness produced on another machine")
    ingest.add_argument("folder")
    _add_target(ingest)

    calibrate = command("calibrate", "measuring", "measure how noisy this machine is for a spec's timed cells")
    _add_target(calibrate)
    calibrate.add_argument("--pairs", type=int, default=10, help="equal pairs of workers (default: 10)")
    calibrate.add_argument("--only", action="append", default=[], metavar="WORKLOAD|CELL", help="these only")
    calibrate.add_argument("--show", action="store_true", help="measure nothing; say what is known and how old it is")
    bench = command("bench", "measuring", "measure how good the measuring is, beside other tools")
    bench.add_argument("what", choices=("quality", "overhead"), help="rates of right verdicts; cost of the harness")
    bench.add_argument("--python", metavar="PYTHON", help="an interpreter with torch, measured against itself")
    bench.add_argument("--packages", metavar="DIR", help="where the other tools are installed for it (pip --target)")
    bench.add_argument("--out", default="out/bench", metavar="DIR", help="where results go (default: out/bench)")
    bench.add_argument(
        "--equal-pairs", type=int, default=300, help="quality: plain pairs of workers, of equal versions"
    )
    bench.add_argument("--pairs", type=int, default=140, help="quality: pairs with planted changes beside plain blocks")
    bench.add_argument("--tail-pairs", type=int, default=28, help="quality: pairs with a slow tail")
    bench.add_argument("--busy-pairs", type=int, default=16, help="quality: pairs with two busy neighbours")
    bench.add_argument("--asked", type=int, default=1, help="quality: questions to each other tool and truth")
    truths = "quality: how many %% slower the versions are that other tools are asked about (default: 0 5)"
    bench.add_argument("--peer-truths", type=float, nargs="*", default=[0.0, 5.0], metavar="PERCENT", help=truths)
    besides = "quality: what else they are asked: equal versions with busy neighbours, a slow tail (default: both)"
    both = ("busy", "tail")
    bench.add_argument("--peer-conditions", nargs="*", default=list(both), choices=both, help=besides)
    bench.add_argument("--peer-s", type=float, default=30.0, help="quality: seconds for one question")
    bench.add_argument("--for", dest="for_s", type=float, metavar="SECONDS", help="quality: stop then; again goes on")
    bench.add_argument("--seed", type=int, default=1)

    verify = command("verify", "trust", "recompute everything a memo rests on, and name what does not hold")
    verify.add_argument("memo", help="a memo's folder, or its memo.pdf alone as it came by mail")
    verify.add_argument("--trust", metavar="FILE", help="signers, or those who certify them, that you trust (PEM)")
    verify.add_argument("--trust-timestamps", metavar="FILE", help="timestamp authorities that you trust (PEM)")
    verify.add_argument("--repo", metavar="DIR", help="the repository that holds the spec (default: around the memo)")
    verify.add_argument("--sigstore-identity", metavar="WHO", help="whose Sigstore signature you accept, and")
    verify.add_argument("--sigstore-issuer", metavar="URL", help="who says that it is them; both or neither")
    verify.add_argument("--sigstore-root", metavar="FILE", help="another instance's trusted root")
    verify.add_argument("--rerender", action="store_true", help="judge and render again, and compare words and pages")
    verify.add_argument("--json", action="store_true")
    key = command("key", "trust", "make and show signing keys")
    key.add_argument("action", choices=("new", "list", "show"))
    key.add_argument("name", nargs="?", help="who signs, for instance 'ML platform' (default: you, from git)")
    cosign = command("cosign", "trust", "add a reviewer's signature to a memo's envelope")
    cosign.add_argument("memo", help="a memo's folder")
    cosign.add_argument("--key", metavar="FILE")
    cosign.add_argument("--sigstore", action="store_true", help="sign as an identity (Sigstore), not with a key")
    cosign.add_argument("--sigstore-config", metavar="FILE", help="another instance's client trust configuration")
    return parser if asked is None or asked in commands.choices else build_parser()
