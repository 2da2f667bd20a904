"""Errors print as one message, carry their parts, and can be caught as the documented built-in ones."""

import pickle

import pytest

from aneforge.errors import (
    AneforgeError,
    Location,
    NoDataError,
    UnknownNameError,
    UnknownTargetError,
    nearest_names,
)
from aneforge.formats.mil.diagnostics import MilError
from aneforge.formats.mil.program import parse_mil


def test_all_parts_are_in_the_message() -> None:
    error = AneforgeError(
        "the kernel is too wide",
        operation="conv",
        location=Location("model.py", 12),
        seen=14,
        limit=13,
        target="h13",
        remedy="split it",
    )
    expected = "conv at model.py:12 on h13: the kernel is too wide (got 14, limit 13). Remedy: split it"
    assert str(error) == expected


def test_a_message_alone_stands_alone() -> None:
    assert str(AneforgeError("just this")) == "just this"


def test_a_zero_is_a_value() -> None:
    assert str(AneforgeError("empty axis", seen=0, limit=1)) == "empty axis (got 0, limit 1)"


@pytest.mark.parametrize("caught", [ValueError, KeyError, AneforgeError])
@pytest.mark.parametrize("raised", [UnknownNameError, UnknownTargetError, NoDataError])
def test_documented_built_in_errors_catch_them(raised: type[AneforgeError], caught: type[Exception]) -> None:
    with pytest.raises(caught) as seen:
        raise raised("no quotes around this")
    assert str(seen.value) == "no quotes around this"


def test_an_error_survives_a_process_boundary() -> None:
    error = NoDataError("no data", target="h20", remedy="choose another")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert str(copy) == str(error)
    assert copy.target == "h20"


def test_an_error_with_arguments_of_its_own_survives_too() -> None:
    with pytest.raises(MilError) as raised:
        parse_mil("program(1.0) {")
    copy = pickle.loads(pickle.dumps(raised.value))  # noqa: S301 - our own bytes
    assert (type(copy), str(copy), copy.line) == (type(raised.value), str(raised.value), 1)


@pytest.mark.parametrize(
    ("location", "text"),
    [
        (Location("model.py", 12), "model.py:12"),
        (Location("model.onnx", node="Conv_3"), "node 'Conv_3' of model.onnx"),
        (Location(node="Conv_3"), "node 'Conv_3'"),
        (Location("model.mil", 4, "relu"), "node 'relu' of model.mil:4"),
        (Location(), "unknown place"),
    ],
)
def test_locations_name_the_users_place(location: Location, text: str) -> None:
    assert str(location) == text


def test_an_unknown_name_without_neighbours_lists_some_known_ones() -> None:
    few, many = (UnknownNameError.of("thing", "zzz", "abcdefghij"[:count]) for count in (4, 10))
    assert str(few) == "unknown thing 'zzz'; known: a, b, c, d"
    assert str(many) == "unknown thing 'zzz'; known: a, b, c, d, e, f, g, h and 2 more"


def test_nearest_names_ignore_case_and_keep_spelling() -> None:
    assert nearest_names("m4 PRO", ["M4 Pro", "M5 Pro", "A12"])[0] == "M4 Pro"
