"""The ledger: append-only evidence, one hash-chained JSON line a record. Written, read, verified, recovered, taken in.

It must not know what the records mean: the judge does. One process writes at a time (flock on the file).
"""

from torchspec.ledger.errors import LedgerError
from torchspec.ledger.read import LedgerReport, head, read, verify
from torchspec.ledger.write import Torn, Writer, append, recover

__all__ = ["LedgerError", "LedgerReport", "Torn", "Writer", "append", "head", "read", "recover", "verify"]
