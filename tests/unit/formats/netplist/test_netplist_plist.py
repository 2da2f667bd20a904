"""Property lists that are broken in every way: one clear error each, with the line where XML has one."""

from __future__ import annotations

import datetime as dt
import plistlib
import struct
import tracemalloc
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aneforge.errors import AneforgeError, GraphError, GraphTypeError
from aneforge.formats.netplist import plist
from aneforge.formats.netplist.plist import PlistDict, parse_plist, quote_value

if TYPE_CHECKING:
    from aneforge.formats.netplist.sketch import Plain


TAGS = "expected dict, array, key, string, integer, real, true, false, data, date"


def wrapped(inner: str) -> bytes:
    return f"<plist>\n<dict>\n{inner}\n</dict>\n</plist>".encode()


@pytest.mark.parametrize("binary", [False, True])
def test_every_kind_of_value(binary: bool) -> None:  # noqa: FBT001 - a parameter of the test
    values: dict[str, Plain] = {
        "text": "a\nb <&> ü 😀",
        "whole": 2**62,
        "negative": -7,
        "number": 0.1,
        "data": b"\x00\xff",
        "yes": True,
        "no": False,
        "list": [1, [2, "three"], {}],
        "": "an empty key",
    }
    data = plistlib.dumps(values, fmt=plistlib.FMT_BINARY if binary else plistlib.FMT_XML)
    assert parse_plist(data) == values
    assert isinstance(parse_plist(data)["yes"], bool)


def test_xml_has_lines_and_binary_has_none() -> None:
    inner = parse_plist(wrapped("<key>a</key>\n\n<dict/>"))["a"]
    assert isinstance(inner, PlistDict)
    assert inner.line == 5
    assert parse_plist(plistlib.dumps({"a": {}}, fmt=plistlib.FMT_BINARY)).line is None


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        ("<key>a</key><key>b</key><true/>", "a.plist:3: a key has no value (got 'a')"),
        ("<key>a</key>", "a.plist:4: a key has no value (got 'a')"),
        ("<true/>", "a.plist:3: a value in a dictionary has no key (got True)"),
        ("<key>a</key><date>2020-01-01</date>", "a.plist:3: a description cannot hold a date (got '2020-01-01')"),
        ("<key>a</key><integer>1.5</integer>", "a.plist:3: it is not an integer (got '1.5')"),
        ("<key>a</key><integer>٣</integer>", "a.plist:3: it is not an integer (got '٣')"),
        ("<key>a</key><integer/>", "a.plist:3: it is not an integer (got '')"),
        ("<key>a</key><real>1,5</real>", "a.plist:3: it is not a number (got '1,5')"),
        ("<key>a</key><data>?</data>", "a.plist:3: it is not valid base64 (got '?')"),
        ("<key>a</key><data>ü</data>", "a.plist:3: it is not valid base64 (got 'ü')"),
        (
            "<key>a</key><strnig>x</strnig>",
            f"a.plist:3: the element is not allowed in a property list (got <strnig>, {TAGS})",
        ),
        ("<key>a</key><string><b/></string>", "a.plist:3: <string> may contain only text (got <b>)"),
        ("stray", "a.plist:4: there is text between elements (got 'stray')"),
        ("<array><key>a</key></array>", "a.plist:3: a key is outside of a dictionary (got 'a')"),
        ("<key>a</key><true/><key>a</key><true/>", "a.plist:2: a key is given twice (got 'a')"),
    ],
)
def test_xml_that_is_no_property_list(inner: str, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        parse_plist(wrapped(inner), "a.plist")
    assert str(caught.value) == f"at {message}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is not a property list: no element found"),
        (b"\x00\x01\x02", "the file is not a property list: not well-formed (invalid token)"),
        (b"<plist><dict>", "the file is not a property list: no element found"),
        (b"<plist></dict>", "the file is not a property list: mismatched tag"),
        (b"<plist/>", "the description is not a dictionary (got None)"),
        (b"<plist><array/></plist>", "the description is not a dictionary (got a list of 0)"),
        (b"<plist><dict/><dict/></plist>", "there are two values at the top (got a dictionary of 0)"),
        (b"<key>a</key>", "a key is outside of a dictionary (got 'a')"),
        (b'<?xml version="1.0" encoding="nonsense"?><plist/>', "the file is not a property list: unknown encoding"),
        (
            b'<?xml version="1.0" encoding="hex"?><plist/>',
            "the file is not a property list: 'hex' is not a text encoding",
        ),
    ],
)
def test_bytes_that_are_no_property_list(data: bytes, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        parse_plist(data)
    assert message in str(caught.value)


def test_text_is_not_bytes() -> None:
    with pytest.raises(GraphTypeError, match="a property list is given as bytes"):
        parse_plist(cast("bytes", "<plist/>"))


def test_a_description_of_a_gigabyte_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plist, "MOST_BYTES", 100)
    with pytest.raises(GraphError, match="the description is too large") as caught:
        parse_plist(b"<plist>" + b" " * 100)
    assert (caught.value.seen, caught.value.limit) == ("107 bytes", "100 bytes")


# Growth without bound


def test_entities_are_refused_before_they_grow() -> None:
    bomb = '<!DOCTYPE p [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><plist><dict><key>&b;</key><true/></dict></plist>'
    with pytest.raises(GraphError) as caught:
        parse_plist(bomb.encode(), "bomb.plist")
    assert str(caught.value) == "at bomb.plist:1: a property list declares no entities (got &a;)"


def test_an_external_entity_is_refused() -> None:
    data = b'<!DOCTYPE p [<!ENTITY a SYSTEM "file:///etc/passwd">]><plist><dict><key>&a;</key><true/></dict></plist>'
    with pytest.raises(GraphError, match="a property list declares no entities"):
        parse_plist(data)


@pytest.mark.parametrize("depth", [40, 100_000])
def test_deep_xml(depth: int) -> None:
    with pytest.raises(GraphError, match="the description nests too deep") as caught:
        parse_plist(b"<plist>" + b"<array>" * depth)
    assert caught.value.limit == "32 levels"


@pytest.mark.parametrize("depth", [40, 5000])
def test_deep_binary(depth: int) -> None:
    # Object i is a list that holds object i + 1; the last one is empty.
    objects = [b"\xa1" + struct.pack(">H", place + 1) for place in range(depth)] + [b"\xa0"]
    with pytest.raises(GraphError, match="the description nests too deep"):
        parse_plist(binary_of([b"\xd1\x00\x01\x00\x02", b"\x51a", *shifted(objects)]))


def shifted(objects: list[bytes]) -> list[bytes]:
    """Return lists of one object whose numbers count from 2 on."""
    return [
        one[:1] + struct.pack(">H", struct.unpack(">H", one[1:])[0] + 2) if len(one) > 1 else one for one in objects
    ]


def binary_of(objects: list[bytes]) -> bytes:
    """Return a binary property list of objects whose references have two bytes; the first is the root."""
    body, offsets = b"bplist00", list[int]()
    for one in objects:
        offsets.append(len(body))
        body += one
    table = b"".join(struct.pack(">I", offset) for offset in offsets)
    return body + table + struct.pack(">5xBBBQQQ", 0, 4, 2, len(objects), 0, len(body))


def test_binary_that_holds_itself() -> None:
    looped = binary_of([b"\xd1\x00\x01\x00\x00", b"\x51a"])
    with pytest.raises(GraphError, match="the description contains itself") as caught:
        parse_plist(looped, "loop.plist")
    assert caught.value.location is not None
    assert caught.value.location.file == "loop.plist"


def test_binary_that_shares_without_end() -> None:
    # Each of thirty lists holds the next one three times: 3 to the power 30 values written out.
    lists = [b"\xa3" + struct.pack(">H", place + 3) * 3 for place in range(30)] + [b"\xa0"]
    shared = binary_of([b"\xd1\x00\x01\x00\x02", b"\x51a", *lists])
    with pytest.raises(GraphError, match="repeats its parts too often") as caught:
        parse_plist(shared)
    assert caught.value.limit == max(16 * len(shared), 1 << 16)


def test_a_shared_scalar_is_no_growth() -> None:
    same: list[Plain] = ["Width" for _ in range(1000)]
    values: dict[str, Plain] = {"a": same, "b": list(same)}
    assert parse_plist(plistlib.dumps(values, fmt=plistlib.FMT_BINARY)) == values


def test_binary_with_a_key_twice() -> None:
    twice = binary_of([b"\xd2\x00\x01\x00\x01\x00\x02\x00\x02", b"\x51a", b"\x09"])
    with pytest.raises(GraphError, match="a key is given twice"):
        parse_plist(twice)


def test_binary_with_a_key_that_is_no_text() -> None:
    with pytest.raises(GraphError, match="a key is not text") as caught:
        parse_plist(binary_of([b"\xd1\x00\x01\x00\x01", b"\x10\x07"]))
    assert caught.value.seen == "7"


def test_binary_with_a_list_as_a_key() -> None:
    with pytest.raises(GraphError, match="binary property list is corrupt"):
        parse_plist(binary_of([b"\xd1\x00\x01\x00\x01", b"\xa0"]))


def test_binary_with_a_date() -> None:
    moment = dt.datetime(2020, 1, 1)  # noqa: DTZ001 - plistlib takes none with a zone
    with pytest.raises(GraphError, match="a description cannot hold such a value") as caught:
        parse_plist(plistlib.dumps({"a": moment}, fmt=plistlib.FMT_BINARY))
    assert caught.value.seen == "a datetime"


def test_binary_cut_off_anywhere() -> None:
    whole = plistlib.dumps({"Networks": ["net"], "net": {"Units": ["u"]}}, fmt=plistlib.FMT_BINARY)
    for length in range(len(whole)):
        with pytest.raises(GraphError):
            parse_plist(whole[:length])


def test_xml_cut_off_anywhere() -> None:
    whole = plistlib.dumps({"Networks": ["net"], "net": {"Units": ["u"]}}).rstrip()
    for length in range(len(whole)):
        with pytest.raises(GraphError):
            parse_plist(whole[:length])


@pytest.mark.parametrize("text", ["9" * 41, "0x" + "f" * 1_000_000, "-" + "1" * 100_000])
def test_huge_whole_numbers(text: str) -> None:
    with pytest.raises(GraphError, match="the integer is too long"):
        parse_plist(wrapped(f"<key>a</key><integer>{text}</integer>"))


def test_long_real_numbers() -> None:
    with pytest.raises(GraphError, match="it is not a number"):
        parse_plist(wrapped(f"<key>a</key><real>{'1' * 100_000}</real>"))


def test_a_count_larger_than_the_file_takes_no_memory() -> None:
    # A list that says it has 2^60 entries.
    claimed = binary_of([b"\xd1\x00\x01\x00\x02", b"\x51a", b"\xaf\x13" + struct.pack(">Q", 1 << 60)])
    tracemalloc.start()
    with pytest.raises(GraphError):
        parse_plist(claimed)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


@given(st.binary(max_size=200))
@example(b"bplist00" + b"\x00" * 40)
@example(b"bplist00" + b"\xff" * 40)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for prefix in (b"", b"bplist00", b"<plist><dict>"):
        with suppress(AneforgeError):
            assert isinstance(parse_plist(prefix + data), PlistDict)


def test_values_are_shown_short() -> None:
    assert quote_value("a" * 61) == f"'{'a' * 60}'..."
    assert quote_value(-(10**5000)) == "an integer of 16610 bits"
    assert quote_value(b"ab") == "data of 2"
    assert quote_value((1, 2)) == "a list of 2"
    assert quote_value({}) == "a dictionary of 0"
    assert quote_value(None) == "None"
