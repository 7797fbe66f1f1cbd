from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest

from bayou.errors import SerializationError
from bayou.kernel import LogSlice, Row, Scan, ScanFile, ScanState, TransactionState
from bayou.kernel.arrow.serialization import WireFormat


class Body(msgspec.Struct, array_like=True):
    number: int
    name: str = ""


FORMAT = WireFormat("parcel", 3, Body)


def test_a_body_comes_back() -> None:
    data = FORMAT.encode(Body(7, "x"))
    assert FORMAT.decode(data, lambda body: body) == Body(7, "x")


def test_an_older_format_is_read() -> None:
    data = WireFormat("parcel", 1, Body).encode(Body(7))
    assert FORMAT.decode(data, lambda body: body.number) == 7


def test_a_newer_format_is_refused_for_that_even_where_its_body_is_another() -> None:
    data = WireFormat("parcel", 4, dict).encode({"a": [1]})
    with pytest.raises(SerializationError, match=r"parcel has format 4.*up to 3.*same version"):
        FORMAT.decode(data, lambda body: body)


def test_another_kind_of_value_is_refused_by_its_name() -> None:
    data = WireFormat("letter", 1, Body).encode(Body(7))
    with pytest.raises(SerializationError, match="contain a letter, not a parcel"):
        FORMAT.decode(data, lambda body: body)


def test_a_field_at_the_end_with_a_default_needs_no_new_format() -> None:
    data = WireFormat("parcel", 3, list).encode([7])
    assert FORMAT.decode(data, lambda body: body) == Body(7, "")


@pytest.mark.parametrize("data", [b"", b"\xff\xff", b"parcel", msgspec.msgpack.encode([1, 2])])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(SerializationError, match="aren't a parcel"):
        FORMAT.decode(data, lambda body: body)


def test_bytes_damaged_anywhere_are_refused_or_what_they_were() -> None:
    data = FORMAT.encode(Body(7, "x"))
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with suppress(SerializationError):
                assert FORMAT.decode(bytes(damaged), lambda body: body) == Body(7, "x")


def test_a_body_that_can_not_be_one_is_refused() -> None:
    def build(body: Body) -> int:
        raise ValueError("no such thing")

    with pytest.raises(SerializationError, match="aren't a parcel: no such thing"):
        FORMAT.decode(FORMAT.encode(Body(1)), build)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Row, "row"),
        (Scan, "scan"),
        (ScanFile, "scan file"),
        (ScanState, "scan state"),
        (LogSlice, "log slice"),
        (TransactionState, "transaction state"),
    ],
)
def test_everything_that_travels_refuses_what_a_newer_version_wrote(kind: type, name: str) -> None:
    newer = WireFormat(name, 99, dict).encode({"what": "ever"})
    with pytest.raises(SerializationError, match=f"This {name} has format 99"):
        kind.from_bytes(newer)
    with pytest.raises(SerializationError, match=f"aren't a {name}"):
        kind.from_bytes(newer[:-3])
