"""The kind of work `rms_norm`, added to torchspec's catalog by an entry point."""

from pathlib import Path

from torchspec.catalog import Axis, Plugin, WorkloadKind

ROW = WorkloadKind(
    "rms_norm",
    "RMS norm over the last dimension (torch.nn.RMSNorm)",
    ("infer", "train"),
    ("infer",),
    (
        Axis("dtype", "name", "float32", "precision of inputs and weights", ("float32", "bfloat16")),
        Axis("tokens", "count", 512, "rows per call"),
        Axis("hidden", "count", 256, "width of a row"),
    ),
    ("cpu", "cuda", "rocm", "mps"),
    items_unit="tokens",
    items=("tokens",),
)
PLUGIN = Plugin(workloads=(ROW,), works={"rms_norm": Path(__file__).parent / "work_rms_norm.py"})
