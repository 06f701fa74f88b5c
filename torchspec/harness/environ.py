"""What a worker is given and what it is: its environment variables, and the fingerprint of interpreter and machine.

Variables are recorded by an allow-list, and a value that looks like a secret never is. Must not measure anything.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import math
import os
import platform
import re
import sys
from pathlib import Path
from typing import Any

from .chain import canonical, file_sha256, sha256_hex

#: What a worker inherits from the driver's own environment; everything else comes from the plan or is set here.
INHERITED = (
    "PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "SDKROOT",
    "CC", "CXX", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ROCM_HOME", "ROCM_PATH", "HSA_OVERRIDE_GFX_VERSION",
)  # fmt: skip
#: What may be recorded, by name or by prefix. HOME and USER are people's names and are not among them.
RECORDED = (
    "LANG", "LC_ALL", "TZ", "CC", "CXX", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING", "CUBLAS_WORKSPACE_CONFIG", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES", "ROCM_HOME", "ROCM_PATH", "HSA_OVERRIDE_GFX_VERSION", "PYTHONHASHSEED",
    "TOKENIZERS_PARALLELISM",
)  # fmt: skip
RECORDED_PREFIXES = (
    "OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "MALLOC_", "TORCH_", "TORCHINDUCTOR_", "TORCHDYNAMO_", "PYTORCH_",
    "NCCL_", "GLOO_", "TRITON_", "ATEN_", "DNNL_", "ONEDNN_", "HIPBLASLT_", "MIOPEN_",
)  # fmt: skip
#: Lists of folders: which they are tells about a person and a machine, so that only their digest is recorded.
FOLDERS = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
#: Each worker has its own, so that neither side warms the other's; they are never recorded.
OWN = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE|SESSION", re.IGNORECASE)
SECRET_VALUE = re.compile(
    r"://[^/\s@]+:[^/\s@]+@|-----BEGIN|^(gh[a-z]_|github_|hf_|sk-|xox|AKIA|eyJ)|bearer\s|(password|token|secret)\s*=",
    re.IGNORECASE,
)
TUNED_MALLOC = {"MALLOC_TRIM_THRESHOLD_": "1073741824", "MALLOC_MMAP_THRESHOLD_": "33554432"}


def looks_secret(name: str, value: str) -> bool:
    """Whether name or value could be a password, key or token: by name, by a known shape, or by being a long jumble."""
    if SECRET_NAME.search(name) or SECRET_VALUE.search(value):
        return True
    for word in re.findall(r"[A-Za-z0-9+_=-]{24,}", value):
        shares = [word.count(c) / len(word) for c in set(word)]
        entropy = -sum(s * math.log2(s) for s in shares)
        mixed = sum(bool(re.search(kind, word)) for kind in ("[a-z]", "[A-Z]", "[0-9]"))
        if entropy > 3.5 and mixed >= 2 and not re.search(r"[a-z]{5,}[-_][a-z]{3,}", word):
            return True
    return False


def recorded_environment(env: dict[str, str]) -> dict[str, str]:
    """The allow-listed variables of `env`: lists of folders as a digest, the user's home folder as ~.

    A value that looks like a secret is replaced by "(withheld)".
    """
    names = sorted(n for n in env if (n in RECORDED or n.startswith(RECORDED_PREFIXES)) and n not in OWN)
    said = {n: "(withheld)" if looks_secret(n, env[n]) else without_home(env[n], env.get("HOME")) for n in names}
    return {**said, **{n: "sha256:" + sha256_hex(env[n].encode("utf-8", "replace"))[:16] for n in FOLDERS if n in env}}


def without_home(text: str, home: str | None = None) -> str:
    """`text` with the user's home folder, at the beginning of a path, written as ~."""
    home = (home or os.path.expanduser("~")).rstrip("/\\")
    return re.sub(rf"(?<![\w.~-]){re.escape(home)}(?![\w.-])", "~", text) if len(home) > 1 else text


def worker_environment(
    frozen: dict[str, str], threads: int, scratch: Path, cache: Path, tuned_malloc: bool, extra: dict[str, str]
) -> dict[str, str]:
    """All variables of a worker: a little that is inherited, pins, then the spec's own (which win), then `extra`."""
    env = {name: os.environ[name] for name in INHERITED if name in os.environ}
    env.update({name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")})
    env.update(
        PYTHONHASHSEED="0",
        PYTHONSAFEPATH="1",
        PYTHONDONTWRITEBYTECODE="1",
        TMPDIR=str(scratch),
        TORCHINDUCTOR_CACHE_DIR=str(cache / "inductor"),
        TORCHINDUCTOR_COMPILE_THREADS="1",
        TRITON_CACHE_DIR=str(cache / "triton"),
    )
    env.update(TUNED_MALLOC if tuned_malloc else {})
    env.update(frozen)
    env.update(extra)
    return env


def _first_line(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()[0].strip()
    except (OSError, IndexError):
        return None


#: Where Linux tells of its processors.
PROCESSORS = Path("/proc/cpuinfo")


def system_text(name: str) -> str | None:
    """What macOS tells under a name such as machdep.cpu.brand_string; None elsewhere."""
    if sys.platform != "darwin":
        return None
    try:
        libc, size, room = ctypes.CDLL(None), ctypes.c_size_t(256), ctypes.create_string_buffer(256)
        failed = libc.sysctlbyname(name.encode(), room, ctypes.byref(size), None, ctypes.c_size_t(0))
    except (OSError, AttributeError):
        return None
    return None if failed else room.value.decode("utf-8", "replace").strip() or None


def cpu_model() -> str:
    """The processor's name as the system tells it."""
    told = system_text("machdep.cpu.brand_string")
    if told:
        return told
    with contextlib.suppress(OSError):
        for line in PROCESSORS.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.lower().startswith(("model name", "hardware")):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def memory_bytes() -> int | None:
    """Physical memory, None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def usable_cores() -> list[int]:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def tie_to_cores(pid: int, cores: set[int]) -> None:
    """Lets a process run on these cores alone, with every thread that it has, where the system can do that and the
    process is still there. What its threads start later is tied as they are."""
    if not hasattr(os, "sched_setaffinity"):
        return
    threads = [pid]
    with contextlib.suppress(OSError, ValueError):
        threads = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    for thread in threads:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(thread, cores)


def host() -> dict[str, Any]:
    """The machine: no names of people or hosts, only a digest that tells one machine from another."""
    identity = _first_line("/etc/machine-id") or platform.node()
    facts = {
        "os": platform.system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "cores_usable": len(usable_cores()),
        "memory_bytes": memory_bytes(),
    }
    return {**facts, "node": sha256_hex(identity.encode()), "fingerprint": sha256_hex(canonical(facts))}


def normal_name(name: str) -> str:
    """A package's name as the packaging rules compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed_packages() -> dict[str, str]:
    """{name: version} of every distribution of this interpreter."""
    import importlib.metadata

    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        with contextlib.suppress(KeyError, TypeError, AttributeError):
            found.setdefault(normal_name(distribution.metadata["Name"]), distribution.version)
    return dict(sorted(found.items()))


def torch_pins() -> list[str]:
    """What torch itself pins (a version or an upper bound in its requirements), and everything below that."""
    import importlib.metadata

    pending: list[tuple[str, bool]] = [("torch", False)]
    seen: set[str] = set()
    while pending:
        name, below = pending.pop()
        try:
            requirements = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for requirement in requirements:
            match = re.match(r"\s*([A-Za-z0-9._-]+)(\[[^\]]*\])?\s*([^;]*)", requirement)
            if match is None or (not below and "extra ==" in requirement):
                continue
            child, bound = normal_name(match.group(1)), match.group(3)
            if child not in seen and (below or re.search(r"==|~=|<", bound)):
                seen.add(child)
                pending.append((child, True))
    return sorted(seen)


def _glibc() -> str | None:
    with contextlib.suppress(ValueError, OSError, AttributeError):
        return os.confstr("CS_GNU_LIBC_VERSION")
    return None


DETERMINISM = ("deterministic", "deterministic_algorithms", "use_deterministic_algorithms")
SWITCHES = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}


def wants_determinism(settings: dict[str, str]) -> bool:
    """Whether the spec's settings ask for deterministic algorithms."""
    return any(SWITCHES.get(settings[name].lower(), False) for name in DETERMINISM if name in settings)


def apply_settings(settings: dict[str, str]) -> dict[str, str]:
    """Sets torch's process-wide settings from the spec; gives what was set. Raises ValueError for an unknown one."""
    import torch

    switches = SWITCHES
    for name, value in settings.items():
        if name.startswith("compile."):
            continue
        if name == "float32_matmul_precision":
            torch.set_float32_matmul_precision(value)
        elif name in DETERMINISM:
            torch.use_deterministic_algorithms(switches[value.lower()])
        elif name in ("tf32", "allow_tf32"):
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = switches[value.lower()]
        elif name == "allow_reduced_precision_reduction":
            torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = switches[value.lower()]
            torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = switches[value.lower()]
        elif name == "cudnn_benchmark":
            torch.backends.cudnn.benchmark = switches[value.lower()]
        elif name == "flush_denormal":
            torch.set_flush_denormal(switches[value.lower()])
        else:
            raise ValueError(f"the harness knows no setting {name}")
    return dict(settings)


def torch_facts() -> dict[str, Any]:
    """Version, source commit and build of torch in this process."""
    import torch

    config = torch.__config__.show() + torch.__config__.parallel_info()
    return {
        "version": torch.__version__,
        "git_version": getattr(torch.version, "git_version", None),
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "debug": bool(getattr(torch.version, "debug", False)),
        "config": hashlib.sha256(config.encode()).hexdigest(),
    }


def side_environment(harness: Path, team: dict[str, str], settings: dict[str, str]) -> dict[str, Any]:
    """The body of `side.environment`, but for side, candidate and device, which the caller knows."""
    import torch

    env = dict(os.environ)
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "executable": file_sha256(Path(sys.executable)),
        "torch": torch_facts(),
        "packages": installed_packages(),
        "torch_pins": torch_pins(),
        "env": recorded_environment(env),
        "threads": {
            "torch": torch.get_num_threads(),
            "interop": torch.get_num_interop_threads(),
            "omp": env.get("OMP_NUM_THREADS"),
        },
        "settings": settings,
        "digests": {"harness": file_sha256(harness), "files": team},
        "glibc": _glibc(),
        "affinity": usable_cores(),
        "malloc": {name: env[name] for name in sorted(env) if name.startswith("MALLOC_")},
    }
