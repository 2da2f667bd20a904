"""Numbers as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aneforge.report.model import Latency

__all__ = ["NO_PROGRAM", "bytes_text", "energy_text", "interval_text", "latency_text", "percent_text", "time_text"]

NO_PROGRAM = "no program needed"
"""What stands for the time of a model whose outputs are its inputs: no program, and no call."""

SCALES = {"µs": 1.0, "ms": 1e3, "s": 1e6}
"""Microseconds of a unit of time."""
UNITS = ("B", "kB", "MB", "GB", "TB")


def bytes_text(count: int) -> str:
    """Return a number of bytes in three digits and a unit of a thousand.

    >>> bytes_text(0), bytes_text(999), bytes_text(23_379_712), bytes_text(1_204_224)
    ('0 B', '999 B', '23.4 MB', '1.2 MB')
    """
    value, unit = float(count), 0
    while value >= 999.5 and unit < len(UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.0f} {UNITS[unit]}" if unit == 0 or value >= 99.95 else f"{value:.1f} {UNITS[unit]}"


def percent_text(share: float) -> str:
    """Return a share in percent; only nothing is 0%, and only everything is 100%.

    >>> percent_text(0.0), percent_text(0.002), percent_text(0.5), percent_text(0.998), percent_text(1.0)
    ('0%', '<1%', '50%', '>99%', '100%')
    """
    if 0 < share < 0.01:
        return "<1%"
    return ">99%" if 0.99 < share < 1 else f"{share:.0%}"


def time_text(microseconds: float) -> str:
    """Return a time in three digits.

    >>> time_text(3.456), time_text(1177.8), time_text(2_500_000)
    ('3.5 µs', '1.2 ms', '2.5 s')
    """
    value, units = microseconds, ["µs", "ms", "s"]
    while value >= 999.5 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.0f} {units[0]}" if value >= 99.95 else f"{value:.1f} {units[0]}"


def energy_text(millijoules: float) -> str:
    """Return millijoules for people, with two digits at least.

    >>> energy_text(1234.5), energy_text(4.44), energy_text(0.0312)
    ('1234', '4.4', '0.031')
    """
    return f"{millijoules:.0f}" if millijoules >= 9.95 else f"{millijoules:.2g}"


def interval_text(low: float, high: float, unit: str) -> str:
    """Return an interval of microseconds in the unit of the time that is before it.

    >>> interval_text(37.2, 174.1, "µs"), interval_text(790.0, 1650.0, "ms"), interval_text(8.0, 20.0, "µs")
    ('37-174', '0.79-1.6', '8.0-20')
    """
    values = low / SCALES[unit], high / SCALES[unit]
    texts = [f"{value:.{0 if value >= 9.95 else 1 if value >= 0.995 else 2}f}" for value in values]
    return "-".join(texts)


def latency_text(latency: Latency | None) -> str:
    """Return a predicted time, and the interval that should hold it.

    >>> from aneforge.evidence import EvidenceKind
    >>> from aneforge.report.model import Latency
    >>> latency_text(Latency(1000.0, 700.0, 1400.0, EvidenceKind.INFERRED)), latency_text(None)
    ('1.0 ms (0.70-1.4)', '')
    """
    if latency is None:
        return ""
    if latency.microseconds <= 0:
        return NO_PROGRAM
    text = time_text(latency.microseconds)
    return f"{text} ({interval_text(latency.low, latency.high, text.rpartition(' ')[2])})"
