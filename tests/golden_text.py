"""The type of the fixture that compares a text with a committed one."""

from collections.abc import Callable

Golden = Callable[[str], None]
