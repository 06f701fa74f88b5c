"""Codes TS8xx (provenance and signatures)."""

from __future__ import annotations

from torchspec.core.codes._row import Code

TABLE: tuple[Code, ...] = (
    Code(
        "TS801",
        "run without compile",
        "A run is bound to a compiled plan and its lock; without them nobody could say afterwards what was measured.",
        "torchspec run",
        "torchspec compile specs/quickstart.tspec && torchspec run",
    ),
    Code(
        "TS802",
        "the plan is not the one that was compiled",
        "plan.json was changed after compile. Limits come from a reviewed spec, never from an edited plan.",
        "edit out/quickstart/plan.json; torchspec run",
        "edit the spec, commit it, then torchspec compile again",
    ),
    Code(
        "TS803",
        "a harness file is not the one that was compiled",
        "Both sides must run the bytes that the lock names, or the work is not frozen.",
        "edit out/quickstart/harness/cpu.py; torchspec run",
        "torchspec compile again",
    ),
    Code(
        "TS804",
        "the lock cannot be read",
        "lock.json binds spec, plan, harness and commit; an unreadable one binds nothing.",
        "a lock.json cut short by a full disk",
        "torchspec compile again",
    ),
    Code(
        "TS805",
        "the spec changed since it was compiled",
        "The plan in out/ holds the limits of an older text than the one beside it.",
        "edit the spec; torchspec run",
        "edit the spec; torchspec compile; torchspec run",
    ),
    Code(
        "TS810",
        "a key of this name is there already",
        "A key that is overwritten can never sign again, and its old memos would seem to come from a stranger.",
        "torchspec key new (twice)",
        "torchspec key new --name release",
    ),
    Code(
        "TS811",
        "no such key",
        "A memo is signed with a private key and its certificate; this one was not found.",
        "torchspec memo --key nobody",
        "torchspec key new",
    ),
    Code(
        "TS812",
        "others can read the private key",
        "Whoever can read a private key can sign in your name, and whoever can write its folder can swap it.",
        "chmod 644 default.key.pem",
        "chmod 600 default.key.pem",
    ),
    Code(
        "TS813",
        "the key cannot be read",
        "The file is not a PEM or PKCS#12 private key, is damaged, or the passphrase is another one.",
        "a certificate given as the key",
        "a PKCS#8 PEM file (with its certificate beside it) or a .p12 file",
    ),
    Code(
        "TS814",
        "this key cannot sign that",
        "A PDF signature needs ECDSA on P-256, P-384 or P-521, or RSA of 2048 bits or more: PDF readers know no other.",
        "an Ed25519 key for memo.pdf",
        "torchspec key new (ECDSA P-256)",
    ),
    Code(
        "TS815",
        "the certificate does not fit",
        "The certificate is missing, belongs to another key, or is outside its dates: readers would refuse it.",
        "a certificate that ended last year",
        "torchspec key new --name 2027",
    ),
    Code(
        "TS816",
        "not a name for a key",
        "The name becomes a file name.",
        "torchspec key new --name ../x",
        "torchspec key new --name release",
    ),
    Code(
        "TS817",
        "the key folder cannot be used",
        "The folder cannot be made or written, so the key would be lost.",
        "TORCHSPEC_KEYS=/proc/keys",
        "TORCHSPEC_KEYS=~/.config/torchspec/keys",
    ),
    Code(
        "TS820",
        "the PDF cannot be signed",
        "A memo carries exactly one signature, over the whole file; this one is damaged, encrypted or signed already.",
        "signing memo.pdf twice",
        "torchspec memo (renders and signs a new one)",
    ),
    Code(
        "TS821",
        "the memo folder cannot be sealed",
        "Plan, lock, ledger and verdict do not belong together, a part is missing, or the disk is full.",
        "a verdict judged from an older ledger",
        "torchspec memo (judges again)",
    ),
    Code(
        "TS822",
        "the envelope cannot be signed by this reviewer",
        "The envelope or a signature beside it does not verify, or this key or identity has signed it already.",
        "torchspec cosign (twice with one key)",
        "torchspec cosign --key reviewer",
    ),
    Code(
        "TS823",
        "the trust file cannot be read",
        "A trust file holds PEM certificates: of the signers that you accept, or of those who certify them (--trust); "
        "of the timestamp authorities that you accept (--trust-timestamps).",
        "torchspec verify --trust memo.pdf",
        "torchspec verify --trust team.cert.pem",
    ),
    Code(
        "TS824",
        "no timestamp was given",
        "The RFC 3161 authority could not be reached, refused, or gave a token that does not hold.",
        "torchspec compile quickstart.tspec --timestamp http://localhost:1",
        "torchspec compile quickstart.tspec --timestamp https://tsa.example.org",
    ),
    Code(
        "TS825",
        "the team's templates cannot be used",
        "A template is missing, does not parse, or does something that the sandbox does not allow.",
        "{{ memo.__class__.__mro__ }}",
        "{{ memo.question }}",
    ),
    Code(
        "TS826",
        "characters without a font (warning)",
        "The PDF embeds the fonts that it draws with; a character that no font on the machine has becomes a box.",
        'asks "能移动吗?" on a machine without a Chinese font',
        "apt-get install fonts-noto-cjk; torchspec memo",
    ),
    Code(
        "TS827",
        "Sigstore is not installed",
        "Signatures of Sigstore are made and looked at by the sigstore package, which is an optional extra.",
        "torchspec cosign out/quickstart/memo/latest --sigstore, without the package",
        "pip install 'torchspec[sigstore]'",
    ),
    Code(
        "TS828",
        "nobody to sign as",
        "A Sigstore signature is made by an identity: a token in SIGSTORE_ID_TOKEN, a job of a known CI service, or a "
        "person who signs in with a browser.",
        "torchspec cosign out/quickstart/memo/latest --sigstore, in a job without a token",
        "SIGSTORE_ID_TOKEN=$(cat token) torchspec cosign out/quickstart/memo/latest --sigstore",
    ),
    Code(
        "TS829",
        "no Sigstore signature was given",
        "Sigstore's services could not be reached, refused the identity, or answered something that does not hold. "
        "Nothing was written.",
        "torchspec cosign out/quickstart/memo/latest --sigstore, without a network",
        "torchspec cosign out/quickstart/memo/latest --key reviewer.key.pem",
    ),
    Code(
        "TS831",
        "whom you accept is half said",
        "An identity is a name and who says that it is theirs: any issuer can say any name, and an issuer alone names "
        "nobody. Nothing was verified.",
        "torchspec verify out/quickstart/memo/latest --sigstore-identity ana@example.org",
        "torchspec verify memo/latest --sigstore-identity ana@example.org --sigstore-issuer https://issuer.example.org",
    ),
)
