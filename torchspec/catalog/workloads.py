"""Workload kinds: one row a kind. `torchspec explain KIND` and the reference documentation come from this table."""

from __future__ import annotations

from torchspec.catalog.metric_forms import EVERY, STEADY
from torchspec.catalog.rows import Axis, WorkloadKind

FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128")
NAMED_MASKS = ("none", "causal", "sliding_window", "block_sparse", "document", "prefix")
MASKS = (*NAMED_MASKS, "custom")
ONE = ("cpu", "cuda", "rocm", "mps")
ALL = (*ONE, "distributed")
RANKS = ("distributed",)


def _dtype(default: str | None = "float32") -> Axis:
    return Axis("dtype", "name", default, "precision of inputs and weights", FLOATS)


def _count(name: str, default: int | None, meaning: str, headline: bool = False) -> Axis:
    return Axis(name, "count", default, meaning, (), headline)


#: Left out where the spec does not say: the team's code decides.
OWN_DTYPE = Axis("dtype", "name", "", "precision of inputs and weights", FLOATS)


def _attention(masks: tuple[str, ...]) -> tuple[Axis, ...]:
    return (
        _dtype(),
        Axis("mask", "name", "none", "which positions see which", masks),
        _count("batch", 1, "sequences per call"),
        _count("heads", 8, "attention heads"),
        _count("seq", None, "positions per sequence", True),
        _count("head_dim", 64, "width of one head"),
    )


RANK_COUNT = _count("ranks", 1, "processes; the values stand on the backend's line", True)
MASK_PARAMETERS = ("window", "block", "document_length", "prefix")
STEPS = ("steps", ("count",), None)
#: Mixed precision: eligible operators run in this dtype, weights stay in the cell's own.
AUTOCAST = ("autocast", ("bfloat16", "float16"), None)
#: How far losses behind a checkpoint may be apart where another version or rank count wrote it.
RESUME_TOLERANCE = ("resume_tolerance", ("tolerance",), None)
OVERLAP = ("overlap", ("none", "prefetch", "separate_reduce_scatter", "reduce_scatter_buffers"), None)

#: What a service can count while it serves: nothing that takes a look inside a process.
SERVED = (
    "runs",
    "error.rate",
    "task.accuracy",
    "latency.p50",
    "latency.p95",
    "latency.p99",
    "latency.first_token_p50",
    "latency.first_token_p95",
    "throughput",
    "memory.driver_peak",
    "memory.reserved_peak",
    "memory.allocated_peak",
)

WORKLOADS: tuple[WorkloadKind, ...] = (
    WorkloadKind(
        "attention",
        "scaled dot product attention (torch.nn.functional.scaled_dot_product_attention)",
        EVERY,
        ("infer",),
        _attention(NAMED_MASKS),
        ONE,
        beside=("sdpa", "flex_attention", "dense"),
        paths=("sdpa", "flex_attention", "dense"),
        items_unit="tokens",
        items=("batch", "seq"),
        options=(AUTOCAST,),
        mask_parameters=MASK_PARAMETERS,
        weights=False,
    ),
    WorkloadKind(
        "flex_attention",
        "FlexAttention with a block mask, and optionally a score modification",
        EVERY,
        ("infer",),
        _attention(MASKS),
        ONE,
        entry="optional",
        beside=("sdpa", "dense", "*"),
        paths=("sdpa", "flex_attention", "dense"),
        items_unit="tokens",
        items=("batch", "seq"),
        options=(
            ("score", ("none", "relative_bias", "alibi", "soft_cap", "custom"), None),
            ("kernel", ("auto", "triton", "flash"), None),
            AUTOCAST,
        ),
        option_backends=(("kernel", "triton", ("cuda", "rocm")), ("kernel", "flash", ("cuda",))),
        mask_parameters=MASK_PARAMETERS,
        entry_part=True,
        weights=False,
    ),
    WorkloadKind(
        "linear_cross_entropy",
        "a linear layer and cross entropy in one call (torch.nn.functional.linear_cross_entropy)",
        ("train", "infer", "compile", "train_compiled"),
        ("train",),
        (
            _dtype(),
            _count("tokens", None, "rows per step"),
            _count("hidden", None, "width of a row"),
            _count("vocabulary", None, "classes", True),
        ),
        ONE,
        beside=("unfused",),
        items_unit="tokens",
        items=("tokens",),
        options=(
            ("options", ("none", "default"), "none"),
            ("batch_chunk_size", ("count",), None),
            ("acc_policy", ("auto", "accurate", "compact"), None),
            ("form", ("functional", "module"), None),
            AUTOCAST,
            STEPS,
        ),
        option_needs=(("batch_chunk_size", "options", "default"), ("acc_policy", "options", "default")),
    ),
    WorkloadKind(
        "python",
        "the team's own code: a function that returns (module, inputs)",
        EVERY,
        ("infer",),
        (_dtype("float32"),),
        ALL,
        entry="required",
        beside=("*",),
        options=(AUTOCAST, STEPS),
        free_axes=True,
    ),
    WorkloadKind(
        "operator",
        "one torch operator by its dotted name; each other line of the shape is an argument of that name",
        STEADY,
        ("infer",),
        (
            _dtype(),
            Axis("operator", "name", None, "dotted name below torch, such as softmax or nn.functional.pad", (), True),
        ),
        ONE,
        beside=("*",),
        items_unit="calls",
        free_axes=True,
        weights=False,
    ),
    WorkloadKind(
        "decode",
        "token-by-token generation with a cache",
        ("infer", "compile"),
        ("infer",),
        (
            _dtype(),
            _count("context", None, "tokens already in the cache", True),
            _count("batch", 1, "sequences at once"),
        ),
        ONE,
        entry="optional",
        beside=("prefill", "*"),
        items_unit="tokens",
        items=("batch",),
        options=tuple((name, ("count",), None) for name in ("layers", "hidden", "heads", "vocabulary")),
    ),
    WorkloadKind(
        "autoencoder",
        "encode and decode with many small padding calls",
        ("infer", "compile", "export"),
        ("infer",),
        (
            _dtype(),
            _count("batch", 1, "images per call"),
            _count("size", 64, "height and width", True),
            _count("frames", 1, "frames per video"),
            _count("channels", 16, "channels of the first layer"),
            _count("blocks", 4, "residual blocks"),
        ),
        ONE,
        entry="optional",
        beside=("*",),
        items_unit="images",
        items=("batch",),
    ),
    WorkloadKind(
        "cutedsl",
        "a CuTeDSL kernel of the team beside the standard operator",
        ("infer", "train"),
        ("infer",),
        (_dtype(),),
        ("cuda",),
        entry="required",
        beside=("*",),
        items_unit="calls",
        free_axes=True,
    ),
    WorkloadKind(
        "triton",
        "a Triton kernel of the team beside the standard operator",
        ("infer", "train"),
        ("infer",),
        (_dtype(),),
        ("cuda", "rocm"),
        entry="required",
        beside=("*",),
        items_unit="calls",
        free_axes=True,
    ),
    WorkloadKind(
        "collective",
        "one collective operation over all ranks",
        ("infer",),
        ("infer",),
        (
            _dtype(),
            Axis(
                "operation",
                "name",
                "all_reduce",
                "which collective",
                ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "barrier"),
                True,
            ),
            _count("bytes", 1048576, "size of one rank's message", True),
            RANK_COUNT,
        ),
        RANKS,
        items_unit="calls",
        options=(("transport", ("gloo", "nccl", "torchcomms"), None),),
        option_over=(("transport", "nccl", ("cuda", "rocm")),),
        weights=False,
    ),
    WorkloadKind(
        "fsdp2",
        "training steps with fully_shard",
        ("train",),
        ("train",),
        (
            _dtype(),
            _count("layers", 2, "blocks"),
            _count("hidden", 256, "width"),
            _count("batch", 8, "rows per rank"),
            RANK_COUNT,
        ),
        RANKS,
        entry="optional",
        items_unit="samples",
        items=("batch",),
        options=(STEPS, OVERLAP, RESUME_TOLERANCE),
        lists=("overlap",),
    ),
    WorkloadKind(
        "ddp",
        "training steps with DistributedDataParallel",
        ("train",),
        ("train",),
        (
            _dtype(),
            _count("layers", 2, "blocks"),
            _count("hidden", 256, "width"),
            _count("batch", 8, "rows per rank"),
            RANK_COUNT,
        ),
        RANKS,
        entry="optional",
        items_unit="samples",
        items=("batch",),
        options=(STEPS, RESUME_TOLERANCE),
    ),
    WorkloadKind(
        "checkpoint",
        "training state as a distributed checkpoint of one process, saved by one side and read by the other",
        ("train",),
        ("train",),
        (_dtype(), _count("layers", 2, "blocks"), _count("hidden", 256, "width")),
        ONE,
        entry="optional",
        items_unit="samples",
        options=(STEPS,),
    ),
    WorkloadKind(
        "ingested",
        "figures that the team's own service produced, as files",
        ("infer",),
        ("infer",),
        (),
        ALL,
        gives=SERVED,
        weights=False,
    ),
)
