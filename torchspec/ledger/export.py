"""Exports for other tools: the ledger as CSV or Parquet (with pyarrow), and the in-toto test result of a verdict."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from torchspec.core.canon import canonical
from torchspec.core.diagnostics import Diagnostic, Result
from torchspec.ledger.errors import LedgerError, cannot
from torchspec.model.evidence import Record
from torchspec.model.plan import Plan
from torchspec.model.verdict import Verdict

COLUMNS = (
    "seq",
    "time",
    "run",
    "kind",
    "cell",
    "candidate",
    "side",
    "metric",
    "against",
    "repeat",
    "value",
    "unit",
    "body",
)
STATEMENT = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"


def row(record: Record) -> tuple[Any, ...]:
    """A record as one row of COLUMNS: what most records share in columns of their own, the whole body as JSON."""
    shared = (record.body.get(name) for name in COLUMNS[4:-1])
    plain = (value if isinstance(value, str | int | float) else None for value in shared)
    return (record.seq, record.time, record.run, record.kind, *plain, canonical(record.body).decode())


def export_csv(records: Iterable[Record], out: Path) -> Result[int]:
    """Write `records` as CSV (UTF-8, a header, RFC 4180 quoting) to `out`; the value is their number. Error: TS701."""

    def write(stream: TextIO) -> int:
        writer = csv.writer(stream, lineterminator="\r\n")
        writer.writerow(COLUMNS)
        count = 0
        for record in records:
            writer.writerow(row(record))
            count += 1
        return count

    return _whole(out, lambda name: _text(name, write))


def export_parquet(records: Iterable[Record], out: Path, *, batch: int = 10_000) -> Result[int]:
    """Write `records` as Parquet to `out`, `batch` of them in memory at a time. Errors: TS721 (no pyarrow), TS701."""
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        hint = "install it (`pip install torchspec[parquet]`), or export CSV"
        return Result(None, (Diagnostic("TS721", "Parquet needs pyarrow, which is not installed", hint=hint),))
    kinds = {"seq": pyarrow.int64(), "repeat": pyarrow.int64(), "value": pyarrow.float64()}
    schema = pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in COLUMNS])

    def write(name: str) -> int:
        count = 0
        with parquet.ParquetWriter(name, schema, compression="zstd") as writer:
            for rows in _batches(records, batch):
                columns = [
                    [_typed(name, value) for value in column]
                    for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=True)
                ]
                arrays = [pyarrow.array(c, type=f.type) for c, f in zip(columns, schema, strict=True)]
                writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
                count += len(rows)
        return count

    return _whole(out, write)


def _typed(name: str, value: Any) -> Any:
    """A cell as its column's type; the words for figures that are not finite become those figures."""
    if value is None:
        return None
    if name == "value":
        try:
            return float(value)
        except ValueError:
            return None
    return value if name in ("seq", "repeat") else str(value)


def _batches(records: Iterable[Record], size: int) -> Iterator[list[tuple[Any, ...]]]:
    held: list[tuple[Any, ...]] = []
    for record in records:
        held.append(row(record))
        if len(held) == size:
            yield held
            held = []
    if held:
        yield held


def _text(name: str, write: Callable[[TextIO], int]) -> int:
    with open(name, "w", encoding="utf-8", newline="") as stream:
        return write(stream)


def _whole(out: Path, write: Callable[[str], int]) -> Result[int]:
    """Let `write` fill a file that takes `out`'s place when it is whole."""
    name = ""
    try:
        handle, name = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
        os.close(handle)
        count = write(name)
        os.chmod(name, 0o644)
        os.replace(name, out)
        return Result(count)
    except LedgerError as error:
        return Result(None, (error.diagnostic,))
    except OSError as error:
        return Result(None, (cannot("write", out, error).diagnostic,))
    finally:
        if name:
            Path(name).unlink(missing_ok=True)


def in_toto_test_result(
    plan: Plan,
    verdict: Verdict,
    candidate: str,
    subjects: Sequence[Mapping[str, Any]],
    configuration: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The in-toto Statement with the test-result predicate (v0.1) for one candidate.

    `subjects` and `configuration` are resource descriptors ({"name", "digest": {"sha256"}}). A test is a gate on a
    cell, by the words of the plan. Whatever is not a pass is a failed test, missing evidence too; so is a candidate for
    which nothing was judged. A waived failure is a warning.
    """
    gates = {gate.id: gate for gate in plan.gates}
    cells = {cell.id: cell.label for cell in plan.cells}
    passed, warned, failed = [], [], []
    for one in verdict.judgements:
        if one.candidate != candidate or gates[one.gate].decision is None:
            continue
        name = f"{cells[one.cell]}: {gates[one.gate].text}"
        if one.outcome == "pass":
            passed.append(name)
        elif one.outcome == "fail" and one.waived:
            warned.append(name)
        else:
            failed.append(f"{name} ({one.outcome})")
    result = "FAILED" if failed or not (passed or warned) else "WARNED" if warned else "PASSED"
    return {
        "_type": STATEMENT,
        "subject": [dict(subject) for subject in subjects],
        "predicateType": TEST_RESULT,
        "predicate": {
            "result": result,
            "configuration": [dict(item) for item in configuration],
            "passedTests": passed,
            "warnedTests": warned,
            "failedTests": failed,
        },
    }
