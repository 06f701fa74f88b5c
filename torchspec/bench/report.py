"""The benchmark's table and picture. Must not measure or judge.

The picture is an SVG: one row a design and truth, with a bar of the shares of pass, inconclusive and fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from torchspec.bench.rates import VERDICTS, Rate

_FILL = {"pass": "#cfe6ea", "inconclusive": "#fdf0cc", "fail": "#9c1c16"}
_ROW, _LEFT, _WIDTH = 22, 420, 420


def told(truth: float) -> str:
    """1.05 as "+5 %", 1.0 as "equal"."""
    return "equal" if truth == 1.0 else f"{(truth - 1) * 100:+g} %"


def _share(rate: Rate, verdict: str) -> str:
    share, low, high = rate.shares[verdict]
    return f"{share * 100:.0f} % [{low * 100:.0f}, {high * 100:.0f}]"


def _within(rate: Rate, limit_s: float) -> str:
    share = rate.within[limit_s]
    return "none" if share is None else f"{share * 100:.0f} %"


def table(
    rates: Sequence[Rate],
    missing: Mapping[str, str],
    setting: Mapping[str, str],
    how: Mapping[str, str],
    different: Mapping[str, tuple[int, int]],
    of_pairs: int,
    off: Mapping[tuple[str, str], tuple[int, float]],
    aims: Sequence[tuple[str, str, str]] = (),
) -> str:
    """The whole result as Markdown: the setting, the rates, who was missing and why, and how each was called.

    `different` has, for each work, how often of how many `of_pairs` equal pairs were called different at 95 %; `off`,
    for each condition and work, of how many pairs one pair's ratio is off by how much; `aims` are rows of `targets`.
    """
    out = ["# Decision quality", "", *(f"- {name}: {value}" for name, value in setting.items()), ""]
    if aims:
        out += ["| wanted, on two cores with a load below 2 | found | |", "|---|---|---|"]
        out += [*(f"| {' | '.join(row)} |" for row in aims), ""]
    heads = ["design", "work", "metric", "condition", "truth", "n", "pass", "inconclusive", "fail", "rms error"]
    heads += ["s together", "pairs", "right in 30 s", "in 60 s"]
    out += [f"| {' | '.join(heads)} |", "|---|---|---|---|---|" + "---:|" * (len(heads) - 5)]
    for rate in rates:
        error = f"{rate.error * 100:.2f} %" if rate.error is not None else "none given"
        pairs = f"{rate.pairs:.1f}" if rate.pairs is not None else "does not apply"
        cells = [rate.design, rate.work, rate.metric, rate.condition, told(rate.truth), str(rate.n)]
        cells += [*(_share(rate, verdict) for verdict in VERDICTS), error, f"{rate.together_s:.1f}", pairs]
        cells += [_within(rate, limit) for limit in (30.0, 60.0)]
        out.append("| " + " | ".join(cells) + " |")
    out += [
        "",
        'Shares with exact binomial intervals of 95 %. `fail` at "equal" is a false alarm; `right` is pass at',
        "",
    ]
    out[-2] += ' "equal" and fail beyond the limit. `s together` is what all works cost that shared the processes.'
    if different:
        said = [f"{work} {hits} of {n}" for work, (hits, n) in different.items()]
        out += [f'"Different" at 95 %, two-sided, of {of_pairs} equal pairs each: {", ".join(said)}.', ""]
    if off:
        said = [
            f"{work}, {condition}: {share * 100:.2f} % ({n} pairs)" for (condition, work), (n, share) in off.items()
        ]
        out += [
            "Of equal versions, the ratio of one pair is off by, root mean square:",
            "",
            *(f"- {one}" for one in said),
            "",
        ]
    if missing:
        out += ["Not run:", "", *(f"- {name}: {why}" for name, why in missing.items()), ""]
    out += ["How each was asked:", "", *(f"- {name}: {text}" for name, text in how.items()), ""]
    return "\n".join(out)


def picture(rates: Sequence[Rate]) -> str:
    """The shares of each row as an SVG."""
    height = 40 + _ROW * len(rates)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 20}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        "<title>Shares of pass, inconclusive and fail by design and truth</title>",
    ]
    for number, verdict in enumerate(VERDICTS):
        at = _LEFT + number * 120
        parts.append(f'<rect x="{at}" y="8" width="12" height="12" fill="{_FILL[verdict]}" stroke="#59606b"/>')
        parts.append(f'<text x="{at + 18}" y="18" fill="#14181f">{verdict}</text>')
    for number, rate in enumerate(rates):
        y = 32 + number * _ROW
        label = f"{rate.design} · {rate.work} · {rate.metric} · {rate.condition} · {told(rate.truth)}"
        parts.append(f'<text x="8" y="{y + 12}" fill="#14181f">{escape(label)}</text>')
        x = float(_LEFT)
        for verdict in VERDICTS:
            width = rate.shares[verdict][0] * _WIDTH
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="16" fill="{_FILL[verdict]}" stroke="#59606b"/>'
            )
            x += width
    return "\n".join([*parts, "</svg>", ""])
