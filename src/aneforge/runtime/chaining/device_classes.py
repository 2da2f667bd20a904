"""Classes that the study found and could do little with: controller, instance parameters, QoS mapper, statistics."""

from __future__ import annotations

from aneforge.records import dataclass
from aneforge.runtime.chaining.arguments import check_integer
from aneforge.runtime.chaining.chaining_study import name_as_studied

__all__ = ["ANEDeviceController", "ANEModelInstanceParameters", "ANEPerformanceStats", "ANEQoSMapper"]


@name_as_studied("_ANEDeviceController")
class ANEDeviceController:
    """`_ANEDeviceController`: nobody has seen one.

    >>> print(ANEDeviceController.controller_with_program_handle(1))
    None
    """

    @staticmethod
    def controller_with_program_handle(handle: int) -> None:
        """Return nil, as the real factory did each time (v2).

        >>> ANEDeviceController.controller_with_program_handle(12345) is None
        True

        Raises:
            GraphTypeError: The handle is not an integer.
        """
        check_integer(handle, "a program handle")


@name_as_studied("_ANEModelInstanceParameters")
@dataclass(frozen=True, slots=True)
class ANEModelInstanceParameters:
    """`_ANEModelInstanceParameters`: a bare one is valid; what it may hold was listed and never set (v2).

    >>> ANEModelInstanceParameters() == ANEModelInstanceParameters()
    True
    """


@name_as_studied("_ANEQoSMapper")
@dataclass(frozen=True, slots=True)
class ANEQoSMapper:
    """`_ANEQoSMapper`: its methods were listed, none was called (v2). Levels are 0 to 63, by default 21.

    >>> ANEQoSMapper() == ANEQoSMapper()
    True
    """


@name_as_studied("_ANEPerformanceStats")
@dataclass(frozen=True, slots=True)
class ANEPerformanceStats:
    """`_ANEPerformanceStats`: made from an execution time; after an evaluation it reports nothing (v2).

    >>> stats = ANEPerformanceStats(0)
    >>> stats.hw_execution_time, stats.performance_counters
    (None, None)

    Raises:
        GraphTypeError: The time is not an integer.
    """

    hardware_execution_ns: int = 0

    def __post_init__(self) -> None:
        check_integer(self.hardware_execution_ns, "a hardware execution time")

    @property
    def hw_execution_time(self) -> None:
        """What an evaluation sets it to: nil, each time."""
        return

    @property
    def performance_counters(self) -> None:
        """What an evaluation sets them to: nil, whatever the mask."""
        return
