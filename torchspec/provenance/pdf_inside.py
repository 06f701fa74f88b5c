"""What a PDF carries beside its pages: the files attached to it, and by what it says that it was drawn.

Says nothing about whether it is signed or intact: that is `pades`'s, and comes first.
"""

from __future__ import annotations

import io
import zlib
from typing import Any

#: Bytes that all attachments together may unpack to. A few hundred bytes of a PDF can unpack to a megabyte of zeros.
LARGEST = 512 << 20


class Unreadable(ValueError):
    """The bytes are not a PDF whose attachments can be read; the message says why, in words."""


def attachments(data: bytes) -> dict[str, bytes]:
    """The attached files by name. Raises Unreadable."""
    from pyhanko.pdf_utils.reader import PdfFileReader

    try:
        names = list(PdfFileReader(io.BytesIO(data)).root["/Names"]["/EmbeddedFiles"]["/Names"])
        found: dict[str, bytes] = {}
        room = LARGEST
        for name, file in zip(names[::2], names[1::2], strict=True):
            if str(name) in found:
                raise Unreadable(f"two files attached to it are called {str(name)[:60]}")
            found[str(name)] = _unpacked(file.get_object()["/EF"]["/F"], str(name)[:60], room)
            room -= len(found[str(name)])
    except KeyError:
        return {}
    except Unreadable:
        raise
    except Exception as error:  # a parser fed with hostile bytes can raise anything, and each of it means: unreadable
        said = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
        raise Unreadable(f"the files attached to it cannot be read: {said}") from error
    return found


def _unpacked(stream: Any, name: str, room: int) -> bytes:
    """The bytes of an attached file, never more than `room`. Raises Unreadable, zlib.error."""
    packed: bytes = stream.encoded_data
    chosen = stream.get("/Filter")
    ways = [] if chosen is None else [chosen] if isinstance(chosen, str) else list(chosen)
    if [str(w) for w in ways] == ["/FlateDecode"] and stream.get("/DecodeParms") is None:
        unpacking = zlib.decompressobj()
        packed = unpacking.decompress(packed, room + 1)
        if len(packed) <= room and not unpacking.eof:
            raise Unreadable(f"{name}, which is attached to it, is not whole")
    elif ways:
        raise Unreadable(f"{name}, which is attached to it, is packed in a way that no memo is")
    if len(packed) > room:
        raise Unreadable(f"the files attached to it unpack to more than {LARGEST:,} bytes, which no memo does")
    return packed


def drawn_by(data: bytes) -> str:
    """What the PDF says that it was drawn with; "" where it says nothing or cannot be read."""
    from pyhanko.pdf_utils.reader import PdfFileReader

    try:
        return str(PdfFileReader(io.BytesIO(data)).trailer["/Info"]["/Creator"])
    except Exception:  # as above: hostile bytes, and it says nothing
        return ""
