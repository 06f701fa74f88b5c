"""Plots as inline SVG: intervals against limits, two distributions, an axis. Pure: a Plot in, markup out.

Colours stand as attributes, because the PDF renderer ignores the page's style sheet inside SVG; classes let the
screen's dark theme override them. Each picture begins with a title that says what it shows. Only numbers and escaped
titles enter the markup."""

from __future__ import annotations

from html import escape

from torchspec.model.memo import Plot, Scale

WIDTH, HEIGHT, AXIS_HEIGHT, SPREAD_HEIGHT = 112, 16, 15, 24
INK, GREY, ZONE, AXIS = "#14181f", "#8a919c", "#dfe2e7", "#59606b"
COLOURS = {
    "pass": "#00566b",
    "fail": "#9c1c16",
    "inconclusive": "#e6a411",
    "error": "#3a1d6e",
    "not_run": "#59606b",
}
_EDGE = 3.0


def svg(plot: Plot) -> str:
    """The picture of a plot."""
    if plot.kind == "axis":
        return _axis(plot)
    if plot.kind == "spread":
        return _spread(plot)
    return _interval(plot)


def _at(scale: Scale, value: float) -> float:
    share = (value - scale.low) / (scale.high - scale.low)
    return _EDGE + share * (WIDTH - 2 * _EDGE)


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float, kind: str) -> str:
    return (
        f'<line class="{kind}" x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}" stroke="{colour}" '
        f'stroke-width="{_n(width)}"/>'
    )


def _open(height: float, title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {_n(height)}" width="{WIDTH}" '
        f'height="{_n(height)}" role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>'
    )


def _interval(plot: Plot) -> str:
    scale, middle = plot.scale, HEIGHT / 2
    out = [_open(HEIGHT, plot.title)]
    assert plot.estimate is not None
    low = plot.estimate if plot.low is None else plot.low
    high = plot.estimate if plot.high is None else plot.high
    limit = plot.limit
    if limit is not None:
        edge = min(max(_at(scale, limit), 0.0), float(WIDTH))
        x, wide = (edge, WIDTH - edge) if plot.beyond == "above" else (0.0, edge)
        if wide > 0:
            out.append(f'<rect class="zone" x="{_n(x)}" y="0" width="{_n(wide)}" height="{HEIGHT}" fill="{ZONE}"/>')
    if scale.low <= 0 <= scale.high:
        out.append(_line(_at(scale, 0), 0, _at(scale, 0), HEIGHT, GREY, 0.7, "zero"))
    if limit is not None and scale.low <= limit <= scale.high:
        out.append(_line(_at(scale, limit), 0, _at(scale, limit), HEIGHT, INK, 1.3, "limit"))
    colour = COLOURS.get(plot.outcome or "", INK)
    if high < scale.low or low > scale.high:
        out.append(_arrow(right=low > scale.high, y=middle))
    else:
        out += _whisker(scale, low, high, middle)
        if scale.low <= plot.estimate <= scale.high:
            out.append(_mark(plot.outcome or "", _at(scale, plot.estimate), middle, colour))
    return "".join([*out, "</svg>"])


def _whisker(scale: Scale, low: float, high: float, y: float) -> list[str]:
    left, right = max(low, scale.low), min(high, scale.high)
    out = []
    x1, x2 = _at(scale, left), _at(scale, right)
    if right > left:
        out.append(_line(x1, y, x2, y, INK, 1.1, "ink"))
    for value, x, rightward in ((low, x1, False), (high, x2, True)):
        if scale.low <= value <= scale.high:
            if right > left:
                out.append(_line(x, y - 2.6, x, y + 2.6, INK, 1.1, "ink"))
        else:
            out.append(_head(x, y, rightward))
    return out


def _head(x: float, y: float, right: bool) -> str:
    d = 4.0 if right else -4.0
    return f'<path class="inkfill" d="M{_n(x + d / 4)} {_n(y)}l{_n(-d)} -2.6v5.2z" fill="{INK}"/>'


def _arrow(*, right: bool, y: float) -> str:
    tip = WIDTH - _EDGE if right else _EDGE
    tail = tip - 18 if right else tip + 18
    return _line(tail, y, tip, y, INK, 1.3, "ink") + _head(tip, y, right)


def _mark(outcome: str, x: float, y: float, colour: str) -> str:
    if outcome == "fail":
        return (
            f'<rect class="m-{outcome}" x="{_n(x - 3.3)}" y="{_n(y - 3.3)}" width="6.6" height="6.6" fill="{colour}"/>'
        )
    if outcome == "inconclusive":
        return (
            f'<path class="m-{outcome}" d="M{_n(x)} {_n(y - 4.6)}l4.6 4.6l-4.6 4.6l-4.6 -4.6z" fill="{colour}" '
            f'stroke="#4f3600" stroke-width="0.8"/>'
        )
    if outcome == "error":
        return f'<path class="m-{outcome}" d="M{_n(x)} {_n(y - 4)}l4.4 7.6h-8.8z" fill="{colour}"/>'
    if outcome == "not_run":
        return (
            f'<circle class="m-{outcome}" cx="{_n(x)}" cy="{_n(y)}" r="3" fill="none" stroke="{colour}" '
            f'stroke-width="1" stroke-dasharray="1.5 1.2"/>'
        )
    return f'<circle class="m-{outcome or "pass"}" cx="{_n(x)}" cy="{_n(y)}" r="3.1" fill="{colour}"/>'


def _spread(plot: Plot) -> str:
    scale = plot.scale
    out = [_open(SPREAD_HEIGHT, plot.title)]
    if scale.low <= 1 <= scale.high:
        out.append(_line(_at(scale, 1), 0, _at(scale, 1), SPREAD_HEIGHT, GREY, 0.7, "zero"))
    for index, (five, quarter, median, three, most) in enumerate(plot.quantiles):
        y = SPREAD_HEIGHT * (0.27 if index == 0 else 0.73)
        out += _whisker(scale, five, most, y)
        left, right = max(quarter, scale.low), min(three, scale.high)
        if right >= left:
            kind, fill = ("box-a", "#ffffff") if index == 0 else ("box-b", GREY)
            out.append(
                f'<rect class="{kind}" x="{_n(_at(scale, left))}" y="{_n(y - 3.6)}" '
                f'width="{_n(max(_at(scale, right) - _at(scale, left), 0.8))}" height="7.2" fill="{fill}" '
                f'stroke="{INK}" stroke-width="0.9"/>'
            )
        if scale.low <= median <= scale.high:
            out.append(_line(_at(scale, median), y - 4.6, _at(scale, median), y + 4.6, INK, 1.7, "ink"))
    return "".join([*out, "</svg>"])


def _axis(plot: Plot) -> str:
    scale = plot.scale
    out = [_open(AXIS_HEIGHT, plot.title)]
    out.append(_line(_EDGE, 1, WIDTH - _EDGE, 1, AXIS, 0.7, "axis"))
    for value, label in scale.ticks:
        x = _at(scale, value)
        out.append(_line(x, 1, x, 4, AXIS, 0.7, "axis"))
        anchor = "start" if x < 8 else "end" if x > WIDTH - 8 else "middle"
        out.append(
            f'<text class="tick" x="{_n(x)}" y="13" font-size="8" text-anchor="{anchor}" fill="{AXIS}" '
            f'font-family="Memo Sans, Inter, DejaVu Sans, sans-serif">{escape(label)}</text>'
        )
    return "".join([*out, "</svg>"])
