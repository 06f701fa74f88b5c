"""What of a machine a stakeholder may see: no home folders, no scratch folders, no variables beside those of the work.

The ledger holds what the run recorded; the memo shows less, also of evidence that an older version wrote. Names and
digests stay, so that an engineer can still tell which environment was meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

#: Variables that steer the work. Which folders a machine has is nobody's business.
_SHOWN = re.compile(
    r"(OMP|MKL|KMP|GOMP|OPENBLAS|MALLOC|TORCH|TORCHINDUCTOR|TORCHDYNAMO|PYTORCH|NCCL|GLOO|TRITON|ATEN|DNNL|ONEDNN"
    r"|HIPBLASLT|MIOPEN|CUDA|CUBLAS|CUDNN|NVIDIA|HIP|ROCR|ROCM|HSA)_\w+\Z|(LANG|LC_ALL|TZ|PYTHONHASHSEED"
    r"|TOKENIZERS_PARALLELISM)\Z"
)
#: Each side has its own, so that neither warms the other's.
OWN = frozenset({"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"})
_NAME = r"[^/\\\s:;,'\"`)\]]+"
_HOME = re.compile(rf"(?<![\w.~/-])(?:/home/{_NAME}|/root|/Users/{_NAME}|[A-Za-z]:\\Users\\{_NAME})(?![\w.-])")
_ENVIRONMENT = re.compile(r"/environments/([0-9a-f]{16})[0-9a-f]*/")
_SIDES = {"--baseline": "BASELINE", "--candidate": "CANDIDATE"}
_LEFT_OUT = ("--context", "--progress")


def variable_shown(name: str) -> bool:
    """Whether the memo may show the environment variable `name`."""
    return name not in OWN and _SHOWN.match(name) is not None


def without_homes(text: str) -> str:
    """`text` with the home folders of people written as ~."""
    if "/home/" not in text and "/root" not in text and "Users" not in text:
        return text
    return _HOME.sub("~", text)


def command(argv: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """A harness's command line without the folders of its machine, and the environment's digest by side where known.

    Interpreters become `BASELINE/bin/python`; other paths keep their last part; what only torchspec asked for is left
    out.
    """
    shown: list[str] = []
    known: dict[str, str] = {}
    for option, value in _options(argv):
        if option in _LEFT_OUT:
            continue
        if option in _SIDES and value is not None:
            name = _SIDES[option]
            found = _ENVIRONMENT.search(value)
            if found:
                known[name] = found[1]
            shown += [option, f"{name}/bin/python"]
            continue
        shown += [option] if value is None else [option, value]
    return [_last(word) for word in shown], known


def _options(argv: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    """Options with the value after them (also of `--name=value`), and words that are none."""
    words = [w for a in argv for w in (a.split("=", 1) if re.match(r"--[\w-]+=", a) else [a])]
    index = 0
    while index < len(words):
        follows = words[index].startswith("--") and index + 1 < len(words) and not words[index + 1].startswith("--")
        yield words[index], words[index + 1] if follows else None
        index += 2 if follows else 1


def _last(word: str) -> str:
    """The last part of a path that begins at a root, a home folder or a drive; other words as they are."""
    if re.match(r"[/~]|[A-Za-z]:\\", word):
        return re.split(r"[/\\]", word.rstrip("/\\"))[-1] or word
    return word
