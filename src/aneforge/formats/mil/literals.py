"""Values of MIL text: numbers, booleans, quoted texts and lists, read and written without losing a bit.

Floating-point numbers are C's hexadecimal ones or decimal. A number keeps what the text says, in float64: that the
engine holds an `fp16(1e-5)` in half precision is a rounding of the engine's, as every other is. An array is of its
element type, so its numbers are rounded to it, each once.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.formats.mil.elements import STORED_ONLY, TEXT, array_dtype
from aneforge.formats.mil.text_rules import ESCAPE, LITERAL_SHAPE, NUMBER, NUMBER_RANGE
from aneforge.ops.types import is_float, value_range

if TYPE_CHECKING:
    from aneforge.formats.mil.syntax import Literal
    from aneforge.ops.types import Array

__all__ = [
    "array_of",
    "array_text",
    "number_text",
    "quote_text",
    "scalar_of",
    "scalar_text",
    "texts_of",
]

Scalar = bool | int | float | str
LONGEST_NUMBER = 1200
"""Characters of a number; the exact decimal form of a float64 has 1,079 at most, with sign, point and exponent."""
HEXADECIMAL = re.compile(r"[-+]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)([pP][-+]?[0-9]{1,9})?", re.ASCII)
DECIMAL = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,9})?", re.ASCII)
WHOLE = re.compile(r"[-+]?[0-9]+|[-+]?0[xX][0-9a-fA-F]+", re.ASCII)
SPECIAL = {"inf": math.inf, "+inf": math.inf, "-inf": -math.inf, "nan": math.nan, "+nan": math.nan, "-nan": -math.nan}
TRUTH = {"true": True, "false": False}
WORD = re.compile(r"[^\[\],\s]+")


def scalar_of(literal: Literal) -> Scalar:
    """Return the value of a literal of one number, boolean or text.

    >>> from aneforge.formats.mil.syntax import Literal, ValueType
    >>> scalar_of(Literal(ValueType("fp16"), "0x1.8p+1")), scalar_of(Literal(ValueType("bool"), "true"))
    (3.0, True)

    Raises:
        MilError: The text is not a value of its element type.
    """
    dtype, text = literal.type.dtype, literal.text
    if dtype == TEXT:
        return text_of(text, literal.text_at)
    if text.startswith("["):
        raise LITERAL_SHAPE.broken(literal.text_at, found="a list", expected=f"one {dtype}")
    return number_of(text, dtype, literal.text_at)


def number_of(word: str, dtype: str, at: int) -> bool | int | float:
    """Return the number or boolean that a word stands for.

    Raises:
        MilError: It is not a value of the element type.
    """
    if len(word) > LONGEST_NUMBER:
        raise NUMBER_RANGE.broken(at, found=f"{len(word)} characters", expected=f"up to {LONGEST_NUMBER}")
    if dtype == "bool":
        if word not in TRUTH:
            raise NUMBER.broken(at, found=word, expected="true or false")
        return TRUTH[word]
    return real_of(word, dtype, at) if is_float(dtype) else whole_of(word, dtype, at)


def real_of(word: str, dtype: str, at: int) -> float:
    """Return a floating-point number.

    Raises:
        MilError: It is none, or it is written as a finite one and is too large for any.
    """
    if word in SPECIAL:
        return SPECIAL[word]
    hexadecimal = HEXADECIMAL.fullmatch(word)
    if not hexadecimal and not DECIMAL.fullmatch(word):
        raise NUMBER.broken(at, found=word or "nothing", expected=f"{dtype} as 0x1.8p+1, 3.0, inf or nan")
    try:
        found = float.fromhex(word) if hexadecimal else float(word)
    except OverflowError:
        found = math.inf
    if math.isinf(found):
        raise NUMBER_RANGE.broken(at, found=word, expected="a finite number, or inf")
    return found


def whole_of(word: str, dtype: str, at: int) -> int:
    """Return an integer.

    Raises:
        MilError: It is none, or the element type does not hold it.
    """
    if not WHOLE.fullmatch(word):
        raise NUMBER.broken(at, found=word or "nothing", expected=f"{dtype} as an integer")
    found = int(word, 16 if "x" in word.lower() else 10)
    least, most = (0, (1 << STORED_ONLY[dtype]) - 1) if dtype in STORED_ONLY else value_range(dtype)
    if not least <= found <= most:
        raise NUMBER_RANGE.broken(at, found=word, expected=f"{least} to {most} as {dtype} holds it")
    return found


def text_of(word: str, at: int) -> str:
    """Return a quoted text; escapes are those of JSON.

    Raises:
        MilError: It is not quoted, or an escape is not known.
    """
    if not word.startswith('"'):
        raise NUMBER.broken(at, found=word, expected="a text in quotation marks")
    try:
        found = cast("str", json.loads(word, strict=False))
    except ValueError:
        raise ESCAPE.broken(at, found=word) from None
    if any("\ud800" <= character <= "\udfff" for character in found):
        raise ESCAPE.broken(at, found=word, expected="whole characters, not half of a surrogate pair")
    return found


def texts_of(literal: Literal) -> list[str]:
    """Return the texts of a list.

    Raises:
        MilError: It is not a list of strings, or not as long as its type.
    """
    try:
        found = cast("object", json.loads(literal.text, strict=False))
    except ValueError:
        raise ESCAPE.broken(literal.text_at, found=literal.text) from None
    words = [word for word in cast("list[object]", found) if isinstance(word, str)] if isinstance(found, list) else []
    if literal.type.rank != 1 or len(words) != literal.type.shape[0]:
        raise LITERAL_SHAPE.broken(literal.text_at, found=f"{len(words)} texts", expected=literal.type)
    return words


def array_of(literal: Literal) -> Array:
    """Return a literal as an array of its element type; numbers of less than a byte take one each.

    >>> from aneforge.formats.mil.syntax import Literal, ValueType
    >>> array_of(Literal(ValueType("int32", (2, 2)), "[[1, 2], [3, 4]]")).tolist()
    [[1, 2], [3, 4]]

    Raises:
        MilError: The values do not fill the type, or one is not a value of it.
    """
    kind = literal.type
    if not literal.text.startswith("["):
        if kind.shape not in ((), (1,)):
            raise LITERAL_SHAPE.broken(literal.text_at, found="one value", expected=kind)
        return convert([number_of(literal.text, kind.dtype, literal.text_at)], kind.dtype).reshape(kind.shape)
    words = words_of(literal)
    values = [number_of(word, kind.dtype, literal.text_at) for word in words]
    return convert(values, kind.dtype).reshape(kind.shape)


def convert(values: list[bool | int | float] | list[bool] | list[int] | list[float], dtype: str) -> Array:
    """Return checked values as an array; what a floating type cannot hold becomes infinite, as its rounding says."""
    if not is_float(dtype):
        wide = np.uint64 if dtype == "uint64" else np.int64
        return np.array(values, np.bool_ if dtype == "bool" else wide).astype(array_dtype(dtype))
    with np.errstate(over="ignore"):
        return np.array(values, np.float64).astype(array_dtype(dtype))


def words_of(literal: Literal) -> list[str]:
    """Return the values of a list, flat or nested as the axes are, in the order of the elements.

    Raises:
        MilError: They do not fill the type.
    """
    kind = literal.type
    words = WORD.findall(literal.text)
    nested = nesting(literal.text)
    flat = (len(words),)
    if not kind.known or len(words) != math.prod(kind.shape) or (nested not in (kind.shape, flat) and words):
        raise LITERAL_SHAPE.broken(literal.text_at, found=literal.text, expected=kind)
    if nested is None:
        raise LITERAL_SHAPE.broken(literal.text_at, found=literal.text, expected="lists in brackets")
    return words


def nesting(text: str) -> tuple[int, ...] | None:
    """Return the lengths of nested lists, from the outermost; None if they are not all alike, or no lists.

    >>> nesting("[[a, b], [c, d], [e, f]]"), nesting("[[a], [b, c]]"), nesting("[a, ]")
    ((3, 2), None, None)
    """
    try:
        return np.shape(json.loads(WORD.sub("0", text)))
    except ValueError:
        return None


def quote_text(text: str) -> str:
    r"""Return a text in quotation marks.

    >>> print(quote_text('a "b"'))
    "a \"b\""
    """
    return json.dumps(text, ensure_ascii=False)


def number_text(value: float) -> str:
    """Return a floating-point number as C writes it in hexadecimal, with no digit too many.

    >>> number_text(10.0), number_text(-0.0), number_text(float("inf"))
    ('0x1.4p+3', '-0x0p+0', 'inf')
    """
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    mantissa, _, exponent = value.hex().partition("p")
    return f"{mantissa.rstrip('0').removesuffix('.') if '.' in mantissa else mantissa}p{exponent}"


def scalar_text(value: Scalar, dtype: str) -> str:
    """Return one value as a literal of an element type has it between its parentheses.

    >>> scalar_text(True, "bool"), scalar_text(2, "int32"), scalar_text(2, "fp16"), scalar_text("EXACT", "string")
    ('true', '2', '0x1p+1', '"EXACT"')
    """
    if isinstance(value, str):
        return quote_text(value)
    if dtype == "bool":
        return "true" if value else "false"
    return number_text(float(value)) if is_float(dtype) else str(int(value))


def array_text(values: Array, dtype: str) -> str:
    """Return an array as nested lists.

    >>> array_text(np.array([[1, 2], [3, 4]]), "int32")
    '[[1, 2], [3, 4]]'
    """
    if values.ndim == 0:
        return scalar_text(cast("Any", values).item(), dtype)
    if values.ndim == 1:
        exact = values.astype(np.float64) if is_float(dtype) else values.astype(np.int8) if dtype == "int4" else values
        return f"[{', '.join(scalar_text(one, dtype) for one in cast('list[Any]', exact.tolist()))}]"
    return f"[{', '.join(array_text(cast('Array', part), dtype) for part in values)}]"
