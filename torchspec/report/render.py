"""The Memo on paper and screen: memo.md, memo.html, memo.pdf and memo.json, from Jinja templates.

Templates run in a sandbox; HTML is escaped by default and Markdown by the filters of `markdown`. Words are never made
here: a template lays out what the Memo holds. A folder of a team's own templates and logo may stand in front of the
package's; nothing outside these folders is read, and nothing is fetched.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, FileSystemLoader, StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup, escape

from torchspec.core.canon import canonical, sha256_hex
from torchspec.core.resources import data_folder
from torchspec.model.codec import to_json
from torchspec.model.memo import Cell, Memo, Plot, Table
from torchspec.report import markdown
from torchspec.report.language import text_of
from torchspec.report.pdf import pages, uncollected, write_pdf
from torchspec.report.plots import svg

FONT_SCHEME = "torchspec-font:"
DENSITIES = (
    "",
    "dense",
    "dense denser",
    "dense denser densest",
    "dense denser densest packed",
)  # page one holds on one page at the first of these that fits
MOST_PRINTED = 300  # rows of one table in the PDF; the rest is in the attached data
FONTS = (
    ("Memo Sans", 400, "inter-400"),
    ("Memo Sans", 600, "inter-600"),
    ("Memo Sans", 700, "inter-700"),
    ("Memo Mono", 400, "jetbrains-mono-400"),
    ("Memo Mono", 700, "jetbrains-mono-700"),
)


def render(
    memo: Memo,
    folder: Path,
    *,
    templates: Path | None = None,
    attachments: Mapping[str, bytes | str] | None = None,
    lacking: set[str] | None = None,
) -> dict[str, Path]:
    """Write the four files into `folder` (made if needed), each whole or not at all; returns them by name.

    `templates` is a folder of the team's own templates, looked at before the package's. `attachments` (name to bytes)
    travel inside the PDF beside memo.json; `lacking` collects characters that no font here has. Raises OSError, and
    jinja2.TemplateError for a team's broken template.
    """
    data = canonical(to_json(memo))
    files = {"memo.json": data, "memo.md": markdown_of(memo, templates).encode()}
    files["memo.html"] = html_of(memo, templates=templates).encode()
    inside = {"memo.json": data, **(attachments or {})}
    files["memo.pdf"] = pdf_of(memo, templates=templates, attachments=inside, lacking=lacking)
    folder.mkdir(parents=True, exist_ok=True)
    return {name: _write(folder / name, content) for name, content in files.items()}


def markdown_of(memo: Memo, templates: Path | None = None) -> str:
    """memo.md as text, with one final newline."""
    text = _environment(templates, html=False).get_template("memo.md.j2").render(memo=memo)
    return text.rstrip("\n") + "\n"


def html_of(
    memo: Memo, *, templates: Path | None = None, paged: bool = False, density: str = "", alone: bool = False
) -> str:
    """memo.html as text, one self-contained file.

    `paged` gives the variant that becomes the PDF; `density` sets its first page closer ("dense", "dense denser");
    `alone` leaves out everything but the first page.
    """
    environment = _environment(templates, html=True)
    css = style(templates, embedded=not paged)
    script = "" if paged else _source(environment, "memo.js")
    policy = "; ".join(
        [
            "default-src 'none'",
            "img-src data:",
            "font-src data:",
            f"style-src '{_hash(css)}'",
            f"script-src '{_hash(script)}'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    return environment.get_template("memo.html.j2").render(
        memo=memo,
        paged=paged,
        density=density,
        alone=alone,
        css=Markup(css),
        script=Markup(script),
        policy=policy,
        most=MOST_PRINTED,
        logo=_logo(templates),
    )


def pdf_of(
    memo: Memo,
    *,
    templates: Path | None = None,
    attachments: Mapping[str, bytes | str] | None = None,
    refused: list[str] | None = None,
    lacking: set[str] | None = None,
) -> bytes:
    """memo.pdf as bytes: the same words, paged; the same memo gives the same bytes on the same system libraries."""
    described = [
        (name, _about(name), data.encode() if isinstance(data, str) else data)
        for name, data in (attachments or {}).items()
    ]
    resources = packaged_fonts()
    with uncollected():
        density = next(
            (
                d
                for d in DENSITIES[:-1]
                if pages(html_of(memo, templates=templates, paged=True, density=d, alone=True), resources) == 1
            ),
            DENSITIES[-1],
        )
        return write_pdf(
            html_of(memo, templates=templates, paged=True, density=density),
            issued=memo.issued,
            identifier=sha256_hex(canonical(to_json(memo)))[:32],
            attachments=described,
            resources=resources,
            refused=refused,
            lacking=lacking,
        )


def stamp_html(lines: tuple[str, str], language: str, width: int, height: int) -> str:
    """The page that is seen of the signature, as HTML."""
    template = _environment(None, html=True).get_template("stamp.html.j2")
    return template.render(lines=lines, language=language, width=width, height=height, fonts=Markup(_fonts(False)))


def _about(name: str) -> str:
    known = {
        "memo.json": "The memo's words and figures as data",
        "plan.json": "The plan that was run",
        "verdict.json": "Every judgement, unrounded",
        "lock.json": "What was compiled, from which commit",
        "registration.json": "Whether the limits came first",
        "ledger.jsonl": "The evidence, record by record",
    }
    return known.get(name, name)


def style(templates: Path | None = None, *, embedded: bool = True) -> str:
    """The style sheet with its fonts and marks inside, so that nothing has to be fetched. Where it is not `embedded`
    the fonts have addresses that only `pdf.fetch` knows."""
    environment = _environment(templates, html=False)
    screen = _source(environment, "screen.css") if embedded else ""
    return _fonts(embedded) + _source(environment, "memo.css") + screen


@cache
def _fonts(embedded: bool) -> str:
    folder = data_folder("templates") / "fonts"
    faces = []
    for family, weight, name in FONTS:
        address, form = f"{FONT_SCHEME}{name}", "truetype"
        if embedded:
            form = "woff2"
            data = base64.b64encode((folder / f"{name}.woff2").read_bytes()).decode()
            address = f"data:font/woff2;base64,{data}"
        faces.append(
            f'@font-face{{font-family:"{family}";font-weight:{weight};font-style:normal;font-display:block;'
            f'src:url({address}) format("{form}")}}\n'
        )
    return "".join(faces)


def packaged_fonts() -> dict[str, bytes]:
    """The fonts of the package by the address under which the printed style sheet names them: unpacked, because
    unpacking all of them for every layout took half of the time that a memo took."""
    folder = data_folder("templates") / "fonts"
    return {f"{FONT_SCHEME}{name}": (folder / f"{name}.ttf").read_bytes() for _, _, name in FONTS}


def _source(environment: ImmutableSandboxedEnvironment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _logo(templates: Path | None) -> str | None:
    """The team's logo.svg or logo.png as a data: address; None where there is none."""
    for name, kind in (("logo.svg", "image/svg+xml"), ("logo.png", "image/png")):
        path = None if templates is None else templates / name
        if path is not None and path.is_file() and not path.is_symlink():
            return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
    return None


@cache
def _environment(templates: Path | None, *, html: bool) -> ImmutableSandboxedEnvironment:
    folders = [data_folder("templates")]
    if templates is not None:
        folders.insert(0, templates)
    environment = ImmutableSandboxedEnvironment(
        loader=ChoiceLoader([FileSystemLoader(f, followlinks=False) for f in folders]),
        autoescape=html,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )
    environment.filters.update(_FILTERS)
    return environment


def _picture(plot: Plot, paged: bool) -> Markup:
    """A plot: drawn in the page, whose style sheet turns it dark, or, on paper, as a picture of its own: there each of
    its lines would be laid out and looked up in the style sheet for nothing."""
    if not paged:
        return Markup(svg(plot))
    data = base64.b64encode(svg(plot).encode()).decode()
    return Markup(f'<img alt="{escape(plot.title)}" src="data:image/svg+xml;base64,{data}">')


def _printed(table: Table, most: int) -> Table:
    """A table with at most `most` rows: what does not pass first, in the given order."""
    if table.kind == "places":
        table = replace(table, rows=tuple(r for r in table.rows if r.key != "pass"))
    if len(table.rows) <= most:
        return table
    keep = {id(r) for r in [*(r for r in table.rows if r.key not in {"pass", "not_run"}), *table.rows][:most]}
    return replace(table, rows=tuple(r for r in table.rows if id(r) in keep))


def _breakable(text: str) -> Markup | str:
    """A name with places where a line may break, so that a long one wraps at a joint; a short one stays whole."""
    if len(text) <= 16:
        return text
    return Markup(re.sub(r"([_./:,=-])(?=[^_./:,=\-&;])", r"\1<wbr>", str(escape(text))))


def _lines(cell: Cell) -> list[tuple[str, float]]:
    """The lines of a cell with the width of their letters: fixed pitch and bold are wider than running text."""
    marks = [("_" * 6 + m.text, 1.1) for m in (cell.mark, cell.decision) if m is not None]
    wide = 1.2 if any(s.style in {"code", "strong"} for s in cell.words) else 1.0
    small = 1.15 if any(s.style == "code" for s in cell.sub) else 0.92
    return [*marks, (text_of(cell.words), wide), (text_of(cell.sub), small)]


def _widths(table: Table) -> tuple[int, ...]:
    """Widths of the columns in per cent, for tables that have none of their own.

    Each gets its longest word, then a share of the rest by how much more it holds. 0 leaves a column to the renderer;
    empty for the kinds whose widths the style sheet sets.
    """
    if table.kind not in _MEASURED:
        return ()
    if table.kind == "matrix":
        return _matrix_widths(len(table.columns))
    least, natural = [], []
    for index, column in enumerate(table.columns):
        lines = [(column.head, 1.15), (column.sub, 1.0)]
        lines += [line for r in table.rows if r.kind == "row" for line in _lines(r.cells[index])]
        least.append(min(max((len(w) * wide for text, wide in lines for w in text.split()), default=1), 22) + 3)
        natural.append(min(max((len(text) * wide for text, wide in lines), default=1), 70) + 3)
    if sum(natural) <= _CHARACTERS:
        return tuple(min(max(round(n * 100 / sum(natural)), 3), 90) for n in natural)
    room = max(_CHARACTERS - sum(least), 0)
    wants = [max(n - m, 0) for n, m in zip(natural, least, strict=True)]
    shares = [m + room * w / (sum(wants) or 1) for m, w in zip(least, wants, strict=True)]
    scale = 100 / (sum(shares) or 1)
    return tuple(min(max(round(s * scale), 3), 90) for s in shares)


def _matrix_widths(columns: int) -> tuple[int, ...]:
    if columns == 3:
        return (24, 22, 54)
    return (max(18, min(28, 40 - 3 * columns)), *([0] * (columns - 1)))


_CHARACTERS = 118  # of the table's type size, across a printed page
_MEASURED = frozenset({"plain", "places", "environment", "matrix"})

_FILTERS: dict[str, Any] = {
    "widths": _widths,
    "breakable": _breakable,
    "md_sign": lambda key: markdown.MARKS[key].format("").replace("**", "").strip() + " ",
    "picture": _picture,
    "printed": _printed,
    "plain": text_of,
    "md": markdown.words,
    "md_line": lambda w: markdown.words(w, start=True),
    "md_text": markdown.text,
    "md_mark": markdown.mark,
    "md_table": markdown.table,
    "md_fence": markdown.fence,
}


def _write(path: Path, data: bytes) -> Path:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return path
