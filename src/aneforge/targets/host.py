"""Which engine this machine has: the environment, then the CPU's own name, then a floor that is always safe.

The model identifier is never asked: `MacBookPro17,1` is an M1 and `Mac17,8` an M5.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from aneforge.callsite import warn
from aneforge.errors import NoDataError, UnknownTargetError
from aneforge.records import dataclass
from aneforge.targets.database import database
from aneforge.targets.family import MIN_FAMILY, Family, family_of
from aneforge.targets.names import find_target

if TYPE_CHECKING:
    from aneforge.targets.target import Chip, Target

__all__ = ["Host", "chip_of_host", "detect_family", "detect_target"]

ENVIRONMENT_VARIABLE = "ANEFORGE_TARGET"
DEVICE_TREE = Path("/proc/device-tree/compatible")
BRAND = re.compile(r"Apple (?P<generation>[AM]\d+)(?P<variant>(?: (?:Pro|Max|Ultra))?)")


@dataclass(frozen=True, slots=True)
class Host:
    """What a machine says about itself; tests pass machines that are not there.

    >>> print(detect_target(Host(cpu_brand="Apple M4 Pro")), detect_target(Host(override="m1")))
    h16g h13
    """

    override: str | None = None
    """The value of ANEFORGE_TARGET."""
    cpu_brand: str | None = None
    """`machdep.cpu.brand_string` of macOS, such as `Apple M5 Pro`."""
    compatible: tuple[str, ...] = ()
    """The root node's `compatible` of a Linux device tree, such as `apple,t8103`."""

    @classmethod
    def this_machine(cls) -> Host:
        """Read this machine's own description. A missing file or tool is not an error: it is not that machine."""
        return cls(os.environ.get(ENVIRONMENT_VARIABLE) or None, read_cpu_brand(), read_device_tree(DEVICE_TREE))


def detect_target(host: Host | None = None) -> Target:
    """Return the target of a machine, this one by default.

    Order: ANEFORGE_TARGET; the CPU brand string; the device tree that Linux shows on Apple silicon; else the
    lowest family that runs MIL, whose programs every later chip runs too, with one warning per process.

    >>> detect_target(Host(compatible=("apple,t8103",)))
    <Target h13: silicon, tier A13, family A13>

    Raises:
        UnknownTargetError: ANEFORGE_TARGET names nothing.
    """
    host = host or Host.this_machine()
    if host.override:
        return _named_by_environment(host.override)
    found = chip_of_host(host)
    if found is not None:
        return database().targets[found.target]
    floor = database().targets[database().representatives[MIN_FAMILY]]
    seen = host.cpu_brand or ", ".join(host.compatible) or "no Apple CPU"
    warn_once(
        f"the host's Neural Engine is not known ({seen}): assuming {floor.name}, which every engine since the M1 "
        f"can run; set {ENVIRONMENT_VARIABLE} to choose"
    )
    return floor


def detect_family(host: Host | None = None) -> Family:
    """Return the family of a machine, this one by default; see `detect_target`.

    >>> detect_family(Host(cpu_brand="Apple M4 Pro")).name
    'A16'

    Raises:
        UnknownTargetError: ANEFORGE_TARGET names nothing.
        NoDataError: ANEFORGE_TARGET names a target that belongs to no family. A family is not guessed for it.
    """
    target = detect_target(host)
    try:
        return family_of(target)
    except NoDataError as error:
        raise NoDataError(f"{ENVIRONMENT_VARIABLE}: {error.message}", target=target.name) from None


@cache
def warn_once(message: str) -> None:
    """Warn, the first time in this process that the message is given."""
    warn(message, UserWarning)


def read_cpu_brand() -> str | None:
    """Return the CPU brand string of macOS, or None on any other system."""
    if sys.platform != "darwin":
        return None
    command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)  # noqa: S603 - fixed arguments
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() or None


def read_device_tree(path: Path) -> tuple[str, ...]:
    """Return the strings of a device tree's `compatible` property, or nothing where there is no such file."""
    try:
        return tuple(path.read_bytes().decode("ascii", "replace").strip("\0").split("\0"))
    except OSError:
        return ()


def _named_by_environment(name: str) -> Target:
    try:
        return find_target(name)
    except UnknownTargetError as error:
        raise UnknownTargetError(f"{ENVIRONMENT_VARIABLE}: {error.message}", remedy=error.remedy) from None


def chip_of_host(host: Host) -> Chip | None:
    """Return the chip that a machine says it has, whatever ANEFORGE_TARGET names; None where it says none."""
    chips = database().chips
    if host.cpu_brand and (match := BRAND.match(host.cpu_brand)):
        exact = (match["generation"] + match["variant"]).lower().replace(" ", "-")
        base = match["generation"].lower()
        if exact in chips:
            return chips[exact]
        if base in chips:
            known = chips[base]
            warn_once(f"{host.cpu_brand} is not in the chip table: assuming {known.name}'s {known.target}, same family")
            return known
    parts = {name.removeprefix("apple,") for name in host.compatible if name.startswith("apple,")}
    return next((known for known in chips.values() if parts.intersection(known.soc)), None)
