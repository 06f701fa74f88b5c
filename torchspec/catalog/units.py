"""Units and what they measure. A rate such as `tokens/s` needs no row: any name before `/s` counts things.

A table and not a library of units: there is no arithmetic between units here, only one factor to a base unit, and the
library that was weighed for it (pint) costs more to import than the whole of `torchspec check`.
"""

from __future__ import annotations

from torchspec.catalog.rows import Unit

UNITS: tuple[Unit, ...] = (
    Unit("ns", "time", 1e-9, -9, "nanosecond"),
    Unit("us", "time", 1e-6, -6, "microsecond"),
    Unit("ms", "time", 1e-3, -3, "millisecond"),
    Unit("s", "time", 1.0, 0, "second"),
    Unit("min", "time", 60.0, None, "minute"),
    Unit("h", "time", 3600.0, None, "hour"),
    Unit("B", "bytes", 1.0, 0, "byte"),
    Unit("kB", "bytes", 1e3, 3, "1000 bytes"),
    Unit("MB", "bytes", 1e6, 6, "1000 kB"),
    Unit("GB", "bytes", 1e9, 9, "1000 MB"),
    Unit("TB", "bytes", 1e12, 12, "1000 GB"),
    Unit("KiB", "bytes", 1024.0, None, "1024 bytes"),
    Unit("MiB", "bytes", 1024.0**2, None, "1024 KiB"),
    Unit("GiB", "bytes", 1024.0**3, None, "1024 MiB"),
    Unit("TiB", "bytes", 1024.0**4, None, "1024 GiB"),
    Unit("%", "ratio", 1e-2, -2, "a hundredth of the reference"),
    Unit("pp", "points", 1e-2, -2, "percentage point: the difference of two percentages"),
    Unit("x", "factor", 1.0, 0, "times the reference"),
    Unit("dB", "db", 1.0, 0, "decibel"),
    Unit("ulp", "ulp", 1.0, 0, "units in the last place"),
    Unit("kB/s", "bandwidth", 1e3, 3, "1000 bytes per second"),
    Unit("MB/s", "bandwidth", 1e6, 6, "1000 kB per second"),
    Unit("GB/s", "bandwidth", 1e9, 9, "1000 MB per second"),
    Unit("KiB/s", "bandwidth", 1024.0, None, "1024 bytes per second"),
    Unit("MiB/s", "bandwidth", 1024.0**2, None, "1024 KiB per second"),
    Unit("GiB/s", "bandwidth", 1024.0**3, None, "1024 MiB per second"),
)

#: The dimension of a metric -> dimensions a limit's unit may have; "" stands for a plain number.
FITS: dict[str, tuple[str, ...]] = {
    "time": ("time",),
    "bytes": ("bytes",),
    "count": ("",),
    "ratio": ("ratio",),
    "db": ("db",),
    "ulp": ("ulp", ""),
    "number": ("",),
    "rate": ("rate",),
    "bandwidth": ("bandwidth",),
    "truth": (),
}
