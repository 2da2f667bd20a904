"""Numbers, booleans, texts and lists of MIL text: read and written without losing a bit."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.formats.mil.diagnostics import MilError
from aneforge.formats.mil.elements import ELEMENTS, STORED_ONLY, TEXT, array_dtype, count_packed_bytes, pack, unpack
from aneforge.formats.mil.literals import (
    array_of,
    array_text,
    number_text,
    quote_text,
    scalar_of,
    scalar_text,
    texts_of,
)
from aneforge.formats.mil.syntax import Literal, ValueType
from aneforge.ops.types import is_float, value_range

NUMBERS = [dtype for dtype in ELEMENTS if dtype != TEXT]


def literal(dtype: str, text: str, *shape: int) -> Literal:
    return Literal(ValueType(dtype, shape or None), text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0x1.4p+3", 10.0),
        ("0x1p0", 1.0),
        ("-0X1P-1", -0.5),
        ("0x3c00", 15360.0),
        ("0x.8p1", 1.0),
        ("0.0", 0.0),
        (".5", 0.5),
        ("2.", 2.0),
        ("1e-5", 1e-5),
        ("+3", 3.0),
        ("inf", math.inf),
        ("-inf", -math.inf),
    ],
)
def test_floating_point_numbers(text: str, value: float) -> None:
    assert scalar_of(literal("fp16", text)) == value


def test_numbers_that_equal_too_much() -> None:
    nan = scalar_of(literal("fp32", "nan"))
    assert isinstance(nan, float)
    assert math.isnan(nan)
    assert math.copysign(1, float(scalar_of(literal("fp16", "-0x0p+0")))) == -1


@pytest.mark.parametrize(
    "text", ["0x", "1e", "e5", "1_000", "0x1p", "--1", "infinity", "\uff11", "0b1", "", "1 2", "0x1p+1.5"]
)
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(MilError, match="MIL-NUMBER-001"):
        scalar_of(literal("fp16", text))


@settings(deadline=None)
@given(st.floats())
def test_every_number_reads_back(value: float) -> None:
    again = scalar_of(literal("fp64", number_text(value)))
    assert struct.pack("d", float(again)) == struct.pack("d", value) or (math.isnan(value) and math.isnan(float(again)))


@pytest.mark.parametrize("dtype", [dtype for dtype in NUMBERS if not is_float(dtype) and dtype != "bool"])
def test_whole_numbers_up_to_their_ends(dtype: str) -> None:
    least, most = (0, 2 ** STORED_ONLY[dtype] - 1) if dtype in STORED_ONLY else value_range(dtype)
    for value in (least, most):
        assert scalar_of(literal(dtype, scalar_text(value, dtype))) == value
        assert array_of(literal(dtype, f"[{value}]", 1)).tolist() == [value]
    for value in (least - 1, most + 1):
        with pytest.raises(MilError, match="MIL-NUMBER-002") as caught:
            scalar_of(literal(dtype, str(value)))
        assert caught.value.expected == f"{least} to {most} as {dtype} holds it"


def test_hexadecimal_whole_numbers() -> None:
    assert scalar_of(literal("uint8", "0xff")) == 255
    assert scalar_of(literal("int8", "-0x80")) == -128


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_reads_back(text: str) -> None:
    written = quote_text(text)
    assert "\n" not in written
    assert scalar_of(literal(TEXT, written)) == text


def test_lists_of_texts() -> None:
    assert texts_of(literal(TEXT, '["a", "b\\"c"]', 2)) == ["a", 'b"c']
    for text in ('["a"]', '{"a": 1}', '["a", "\\q"]', '["a", "b"', "[1, 2]"):
        with pytest.raises(MilError):
            texts_of(literal(TEXT, text, 2))


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("[1, 2, 3, 4, 5, 6]", (2, 3)),
        ("[[1, 2, 3], [4, 5, 6]]", (2, 3)),
        ("[[[1], [2]], [[3], [4]], [[5], [6]]]", (3, 2, 1)),
        ("[1,2,3,4,5,6]", (6,)),
        ("[\n 1, 2,\n 3, 4, 5, 6 ]", (1, 6)),
    ],
)
def test_lists_flat_and_nested(text: str, shape: tuple[int, ...]) -> None:
    assert array_of(literal("int32", text, *shape)).tolist() == np.arange(1, 7).reshape(shape).tolist()


@pytest.mark.parametrize(
    "text",
    ["[[1, 2], [3, 4], [5, 6]]", "[1, 2, 3, 4, 5]", "[[1, 2, 3, 4, 5, 6]]", "[1, 2,, 3, 4, 5, 6]", "[1 2, 3, 4, 5, 6]"],
)
def test_lists_of_another_shape(text: str) -> None:
    with pytest.raises(MilError, match="MIL-TYPE-005"):
        array_of(literal("int32", text, 2, 3))


def test_empty_lists() -> None:
    assert array_of(literal("int32", "[]", 0)).shape == (0,)
    assert array_of(literal("fp16", "[[], []]", 2, 0)).shape == (2, 0)
    assert array_of(Literal(ValueType("fp16", (0, 10**17)), "[]")).shape == (0, 10**17)
    for text in ("[,]", "[[]"):
        with pytest.raises(MilError, match="MIL-TYPE-005"):
            array_of(literal("int32", text, 0))


def test_an_unknown_length_has_no_values() -> None:
    with pytest.raises(MilError, match="MIL-TYPE-005"):
        array_of(Literal(ValueType("fp16", (None,)), "[1]"))


def test_numbers_of_arrays_are_rounded_once() -> None:
    halfway = 1 + 2.0**-11 + 2.0**-40  # half precision by way of single precision would round it down
    assert array_of(literal("fp16", f"[{number_text(halfway)}]", 1)).tolist() == [1 + 2.0**-10]
    assert array_of(literal("fp16", "[1e30]", 1)).tolist() == [math.inf]


@pytest.mark.parametrize("dtype", NUMBERS)
@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), shape=st.lists(st.integers(0, 3), max_size=3))
def test_arrays_read_back(dtype: str, seed: int, shape: list[int]) -> None:
    generator = np.random.default_rng(seed)
    if is_float(dtype):
        values = generator.standard_normal(shape).astype(array_dtype(dtype))
    else:
        bits = STORED_ONLY.get(dtype)
        least, most = (0, 2**bits - 1) if bits else value_range(dtype)
        wide = np.uint64 if dtype == "uint64" else np.int64
        values = generator.integers(least, most, shape, dtype=wide, endpoint=True).astype(array_dtype(dtype))
    again = array_of(Literal(ValueType(dtype, tuple(shape)), array_text(values, dtype)))
    assert again.dtype == values.dtype
    assert again.shape == values.shape
    assert again.tobytes() == values.tobytes()
    stored = pack(values, dtype)
    assert stored.size == count_packed_bytes(dtype, values.size)
    assert unpack(stored, dtype, values.size).tobytes() == values.tobytes()


def test_nothing_is_copied_where_nothing_is_packed() -> None:
    values = np.arange(4, dtype=np.float16)
    assert np.shares_memory(pack(values, "fp16"), values)
    assert np.shares_memory(unpack(pack(values, "fp16"), "fp16", 4), values)
