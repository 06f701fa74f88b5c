"""The harness: an island of plain modules that `emit.bundle` joins into one self-contained file a backend.

Rules of the island, checked by `emit.verify` and by tests:

- standard library and torch only; torch is imported inside functions, so that a file starts without it;
- modules import each other as `from .chain import canonical` (no `import x as y`, no `from . import x`), because the
  bundler removes these lines: all modules share one namespace in the emitted file, so every top-level name is unique;
- Python 3.10 syntax, torch 2.4 calls; what a version lacks is recorded as unsupported with its error, never skipped;
- nothing of torchspec imports it, it imports nothing of torchspec.

To add a workload kind: read the recipe in `work.py`. To add a device: read `device.py`.
"""
