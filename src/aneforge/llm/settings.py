"""Settings of a model (`config.json`), read by name and type, so that an error names the wrong one."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aneforge.errors import CheckpointError, Location
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ModelSettings"]


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The settings of one model and the place that they were read from.

    A setting that is null counts as absent, as it does for those who write these files.

    >>> settings = ModelSettings({"hidden_size": 64, "head_dim": None}, "config.json")
    >>> settings.integer("hidden_size"), settings.integer("head_dim", 16)
    (64, 16)
    """

    values: Mapping[str, object]
    source: str

    def has(self, name: str) -> bool:
        """Return whether a setting is there and not null."""
        return self.values.get(name) is not None

    def get(self, name: str) -> object:
        """Return a setting that must be there.

        Raises:
            CheckpointError: It is not.
        """
        if not self.has(name):
            raise CheckpointError(
                f"the setting {name!r} is missing",
                location=Location(self.source),
                remedy="copy config.json from the source of the weights",
            )
        return self.values[name]

    def wrong(self, name: str, expected: str) -> CheckpointError:
        """Return the error for a setting that has a value of another sort."""
        return CheckpointError(
            f"the setting {name!r} must be {expected}", location=Location(self.source), seen=repr(self.values[name])
        )

    def integer(self, name: str, default: int | None = None, *, least: int = 1, most: int | None = None) -> int:
        """Return an integer setting that is within bounds.

        Raises:
            CheckpointError: It is missing, or no such integer.
        """
        if default is not None and not self.has(name):
            return default
        found = self.get(name)
        if isinstance(found, float) and found.is_integer():
            found = int(found)
        if isinstance(found, bool) or not isinstance(found, int) or found < least:
            raise self.wrong(name, f"an integer of {least} or more")
        if most is not None and found > most:
            raise self.wrong(name, f"an integer of at most {most}")
        return found

    def number(self, name: str, default: float | None = None) -> float:
        """Return a finite number.

        Raises:
            CheckpointError: It is missing, or not a number.
        """
        if default is not None and not self.has(name):
            return default
        found = self.get(name)
        if isinstance(found, bool) or not isinstance(found, int | float) or found - found != 0:
            raise self.wrong(name, "a finite number")
        return float(found)

    def positive(self, name: str, default: float | None = None) -> float:
        """Return a finite number above 0.

        Raises:
            CheckpointError: It is missing, or not such a number.
        """
        found = self.number(name, default)
        if found <= 0:
            raise self.wrong(name, "a positive number")
        return found

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a boolean.

        Raises:
            CheckpointError: It is not one.
        """
        if not self.has(name):
            return default
        found = self.get(name)
        if not isinstance(found, bool):
            raise self.wrong(name, "true or false")
        return found

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text.

        Raises:
            CheckpointError: It is missing, or not a text.
        """
        if default is not None and not self.has(name):
            return default
        found = self.get(name)
        if not isinstance(found, str):
            raise self.wrong(name, "a text")
        return found

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts; none where the setting is absent.

        Raises:
            CheckpointError: It is not such a list.
        """
        return tuple(cast("str", one) for one in self.entries(name, str, "a list of texts"))

    def numbers(self, name: str) -> tuple[float, ...]:
        """Return a list of numbers; none where the setting is absent.

        Raises:
            CheckpointError: It is not such a list.
        """
        return tuple(float(cast("float", one)) for one in self.entries(name, int | float, "a list of numbers"))

    def entries(self, name: str, kind: type | object, expected: str) -> list[object]:
        """Return the entries of a list, all of one type.

        Raises:
            CheckpointError: It is not such a list.
        """
        if not self.has(name):
            return []
        found = self.get(name)
        if not isinstance(found, list):
            raise self.wrong(name, expected)
        entries = cast("list[object]", found)
        if not all(isinstance(one, cast("type", kind)) and not isinstance(one, bool) for one in entries):
            raise self.wrong(name, expected)
        return entries

    def nested(self, name: str) -> ModelSettings:
        """Return the settings under a name; empty ones where the name is absent.

        Raises:
            CheckpointError: They are not an object.
        """
        if not self.has(name):
            return ModelSettings({}, f"{self.source}, {name}")
        found = self.get(name)
        if not isinstance(found, dict):
            raise self.wrong(name, "an object")
        return ModelSettings(cast("dict[str, object]", found), f"{self.source}, {name}")
