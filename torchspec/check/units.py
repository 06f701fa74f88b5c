"""Quantities: numbers with units, converted to base units, and whether a unit fits."""

from __future__ import annotations

from torchspec.catalog import Catalog, Metric, Relation
from torchspec.catalog.units import FITS
from torchspec.check.spec import Quantity
from torchspec.check.structure import Context
from torchspec.core.diagnostics import Span
from torchspec.syntax.ast import Value

_EXAMPLES = {
    "time": "10 ms",
    "bytes": "64 MiB",
    "ratio": "3 %",
    "points": "0.2 pp",
    "factor": "1.2 x",
    "db": "60 dB",
    "ulp": "4 ulp",
    "rate": "45 tokens/s",
    "bandwidth": "10 GB/s",
    "": "3",
}
_CALLED = {
    "time": "a time",
    "bytes": "a size in bytes",
    "ratio": "a percentage",
    "points": "percentage points",
    "factor": "a factor",
    "db": "decibels",
    "ulp": "units in the last place",
    "rate": "a rate",
    "bandwidth": "a bandwidth",
    "": "a plain number",
}


def dimension_of(catalog: Catalog, unit: str | None) -> str:
    """The dimension of a unit's name; "" for none, "rate" for `things/s`."""
    if unit is None:
        return ""
    known = catalog.units.get(unit)
    return known.dimension if known is not None else "rate"


def convert(catalog: Catalog, value: Value) -> Quantity:
    """A number with its unit in base units, rounded once (0.1 % is the float nearest to 0.001)."""
    known = catalog.units.get(value.unit) if value.unit else None
    if value.number is None:
        raise ValueError(f"not a number: {value}")
    if known is None:
        base = float(value.number)
    elif known.power is not None and "e" not in value.text.lower():
        base = float(f"{value.text}e{known.power}")
    else:
        base = value.number * known.factor
    return Quantity(base, value.unit, value.written, value.span)


def wanted(context: Context, value: Value | None, dimension: str, what: str) -> Quantity | None:
    """`value` converted where it is a quantity of `dimension`; else the mistake is said and None returned."""
    if value is None:
        return None
    actual = dimension_of(context.catalog, value.unit)
    if actual == dimension:
        return convert(context.catalog, value)
    has = "no unit" if value.unit is None else f"`{value.unit}`"
    message = f"{what} is {_CALLED[dimension]}, and this has {has}"
    context.say("TS301", message, value.span, f"for example: {_EXAMPLES[dimension]}")
    return None


def limit_dimensions(metric: Metric, relation: Relation) -> tuple[str, ...]:
    """What the unit of a limit of this relation on this metric may measure."""
    if relation.limit == "ratio":
        return ("ratio",)
    if relation.limit == "factor":
        return ("factor",)
    if relation.limit is None:
        return ()
    if metric.dimension == "ratio" and relation.compares:
        return ("points",)
    return FITS[metric.dimension]


def limit(
    context: Context, metric: Metric, relation: Relation, value: Value, items: str | None = None
) -> Quantity | None:
    """The limit in base units, where its unit fits."""
    fits = limit_dimensions(metric, relation)
    actual = dimension_of(context.catalog, value.unit)
    if actual in fits:
        return convert(context.catalog, value)
    example = _EXAMPLES[fits[0]]
    if relation.form != "absolute" and fits[0] in ("ratio", "factor", "points"):
        said = f"`{value.unit}`" if value.unit else "no unit"
        message = f"a limit on `{relation.form}` is {_CALLED[fits[0]]}, and this has {said}"
        context.say("TS302", message, value.span, _fix(value, fits[0], example))
        return None
    if actual in ("ratio", "points", "factor"):
        message = f"an absolute limit on {metric.name} is {_CALLED[fits[0]]}, not {_CALLED[actual]}"
        relations = [f for f in metric.forms if f in ("growth", "drop", "speedup")]
        more = f", or compare: `{relations[0]} <= {value.written}`" if relations and actual == "ratio" else ""
        context.say("TS303", message, value.span, f"for example: {example}{more}")
        return None
    has = f"`{value.unit}`" if value.unit else "no unit"
    message = f"{metric.name} is measured as {_CALLED[fits[0]]}, and this limit has {has}"
    context.say("TS301", message, value.span, _fix(value, fits[0], example))
    return None


def _fix(value: Value, dimension: str, example: str) -> str:
    unit = {"ratio": "%", "factor": "x", "points": "pp"}.get(dimension)
    return f"write `{value.text} {unit}`" if unit and value.unit is None else f"for example: {example}"


def positive(context: Context, quantity: Quantity | None, what: str, span: Span) -> bool:
    """Whether a quantity is there and above 0; says so where it is not above 0."""
    if quantity is not None and quantity.value <= 0:
        context.say("TS308", f"{what} must be above 0", span)
        return False
    return quantity is not None
