"""The auditor's commands: verify, key, cosign."""

from __future__ import annotations

import json
import re
import sys
from argparse import Namespace
from pathlib import Path

from torchspec.cli.common import exit_for, show
from torchspec.cli.exits import Exit
from torchspec.cli.output import say, wants_color

_GREEN, _RED, _DIM, _RESET = "\x1b[32m", "\x1b[1;31m", "\x1b[2m", "\x1b[0m"


def verify(arguments: Namespace) -> int:
    """Recompute everything a memo rests on, and name what does not hold."""
    from torchspec import pipeline_seal
    from torchspec.provenance import verify as verifying
    from torchspec.provenance.keyless import Known, half_said

    root = Path(arguments.sigstore_root) if arguments.sigstore_root else None
    accepted = Known(arguments.sigstore_identity, arguments.sigstore_issuer, root)
    half = half_said(accepted)
    if half is not None:
        show((half,), {}, arguments)
        return exit_for((half,))
    report = verifying.verify(
        Path(arguments.memo),
        Path(arguments.trust) if arguments.trust else None,
        Path(arguments.repo) if arguments.repo else None,
        rejudge=pipeline_seal.rejudge if arguments.rerender else None,
        rerender=pipeline_seal.rerender if arguments.rerender else None,
        accepted=accepted,
        trust_timestamps=Path(arguments.trust_timestamps) if arguments.trust_timestamps else None,
    )
    if arguments.json:
        say(json.dumps(report.to_json(), indent=1, ensure_ascii=False))
        return Exit.ADOPT if report.ok else Exit.BROKEN
    color = wants_color(sys.stdout, arguments.color)
    for check in report.checks:
        word, paint = {True: ("ok", _GREEN), False: ("BROKEN", _RED), None: ("unknown", _DIM)}[check.ok]
        mark = f"{paint if color else ''}{word:<7}{_RESET if color else ''}"
        say(f"{mark} {check.name}: {check.reason}")
    say()
    for sentence in report.words:
        say(sentence)
    for signer in report.signers[1:]:
        say(f"Signed by a reviewer too: {signer.words}.")
    for candidate, decision in report.decisions:
        say(f"Sealed decision for {candidate}: {decision}")
    return Exit.ADOPT if report.ok else Exit.BROKEN


def key(arguments: Namespace) -> int:
    """Make, list or show signing keys."""
    from torchspec import pipeline_seal
    from torchspec.provenance import keys

    if arguments.action == "list":
        found = keys.list_keys()
        for info in found:
            say(f"{info.name}: {info.subject}, {info.algorithm}, {info.fingerprint[:16]}, until {info.not_after[:10]}")
        if not found:
            say(f"no keys in {keys.key_folder()}; make one: torchspec key new")
        return Exit.ADOPT
    if arguments.action == "new":
        person = arguments.name or pipeline_seal.person_of()
        name = re.sub(r"[^A-Za-z0-9]+", "-", person).strip("-").lower()[:64] if arguments.name else "default"
        made = keys.new_key(name or "default", person)
    else:
        made = keys.show_key(arguments.name or "default")
    show(made.diagnostics, {}, arguments)
    if made.value is None:
        return exit_for(made.diagnostics) or Exit.MACHINE
    info = made.value
    say(f"{info.name}: {info.subject}, {info.algorithm}")
    say(f"  private key   {info.path} (readable by you only)")
    say(f"  certificate   {info.certificate_path} (give this to your readers)")
    say(f"  fingerprint   {info.fingerprint}")
    vouched = "self-signed" if info.self_signed else "certified"
    say(f"  valid         {info.not_before[:10]} to {info.not_after[:10]}, {vouched}")
    return Exit.ADOPT


def cosign(arguments: Namespace) -> int:
    """Add a reviewer's signature to a memo's envelope."""
    from torchspec import pipeline_seal
    from torchspec.provenance import bundle

    memo = Path(arguments.memo).resolve()
    if arguments.sigstore:
        config = Path(arguments.sigstore_config) if arguments.sigstore_config else None
        seen = bundle.cosign_keyless(memo, config=config, ask=sys.stdin.isatty())
        show(seen.diagnostics, {}, arguments)
        if seen.value is None:
            return exit_for(seen.diagnostics) or Exit.MACHINE
        say(f"signed by {seen.value.identity}, as {seen.value.issuer} says; logged at {seen.value.logged or 'no time'}")
        return Exit.ADOPT
    signing = pipeline_seal.key_for_signing(arguments.key)
    show(signing.diagnostics, {}, arguments)
    if signing.value is None:
        return exit_for(signing.diagnostics) or Exit.MACHINE
    signer, _ = signing.value
    done = bundle.cosign(memo, signer)
    show(done.diagnostics, {}, arguments)
    if done.value is None:
        return exit_for(done.diagnostics) or Exit.MACHINE
    say(f"signed by {signer.info.subject}; the envelope carries {done.value} signatures")
    return Exit.ADOPT
