"""What a PDF carries beside its pages: the files attached to it, and by what it says that it was drawn.

Says nothing about whether it is signed or intact: that is `pades`'s, and comes first.
"""

from __future__ import annotations

import io


class Unreadable(ValueError):
    """The bytes are not a PDF whose attachments can be read; the message says why, in words."""


def attachments(data: bytes) -> dict[str, bytes]:
    """The attached files by name. Raises Unreadable."""
    from pyhanko.pdf_utils.misc import PdfError
    from pyhanko.pdf_utils.reader import PdfFileReader

    try:
        names = list(PdfFileReader(io.BytesIO(data)).root["/Names"]["/EmbeddedFiles"]["/Names"])
        found = {}
        for name, file in zip(names[::2], names[1::2], strict=True):
            if str(name) in found:
                raise Unreadable(f"two files attached to it are called {str(name)[:60]}")
            found[str(name)] = file.get_object()["/EF"]["/F"].data
    except KeyError:
        return {}
    except Unreadable:
        raise
    except (PdfError, OSError, ValueError, TypeError, AttributeError, IndexError, RecursionError) as error:
        said = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
        raise Unreadable(f"the files attached to it cannot be read: {said}") from error
    return found


def drawn_by(data: bytes) -> str:
    """What the PDF says that it was drawn with; "" where it says nothing or cannot be read."""
    from pyhanko.pdf_utils.misc import PdfError
    from pyhanko.pdf_utils.reader import PdfFileReader

    try:
        return str(PdfFileReader(io.BytesIO(data)).trailer["/Info"]["/Creator"])
    except (PdfError, OSError, ValueError, TypeError, AttributeError, KeyError):
        return ""
