"""Numbers as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aneforge.report.model import Latency

__all__ = ["bytes_text", "latency_text", "time_text"]

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


def time_text(microseconds: float) -> str:
    """Return a time in three digits.

    >>> time_text(3.456), time_text(1177.8), time_text(2_500_000)
    ('3.5 µs', '1.2 ms', '2.5 s')
    """
    value, units = microseconds, ["µs", "ms", "s"]
    while value >= 999.5 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.0f} {units[0]}" if value >= 99.95 else f"{value:.1f} {units[0]}"


def latency_text(latency: Latency | None) -> str:
    """Return a predicted time with its error: the larger side of the interval, as a share.

    >>> from aneforge.evidence import EvidenceKind
    >>> from aneforge.report.model import Latency
    >>> latency_text(Latency(1000.0, 700.0, 1400.0, EvidenceKind.INFERRED)), latency_text(None)
    ('1.0 ms ±40%', '')
    """
    if latency is None:
        return ""
    if latency.microseconds <= 0:
        return time_text(latency.microseconds)
    error = max(latency.high - latency.microseconds, latency.microseconds - latency.low) / latency.microseconds
    return f"{time_text(latency.microseconds)} ±{error:.0%}"
