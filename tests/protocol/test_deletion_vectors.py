from __future__ import annotations

import contextlib
import struct
import uuid

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from bayou.protocol.actions import DeletionVectorDescriptor
from bayou.protocol.deletion_vectors import (
    DeletionVectorError,
    check_bitmap,
    decode_bitmap,
    encode_bitmap,
    file_path,
    frame,
    inline_data,
    stored_vector,
    unframe,
    vector_in_file,
    z85_decode,
    z85_encode,
)

ROWS = st.sets(
    st.integers(0, 100) | st.integers(60_000, 200_000) | st.integers(0, (1 << 63) - 1), max_size=50
)


def descriptor(kind="u", text="", offset=None, size=0, cardinality=0):
    return DeletionVectorDescriptor(
        storage_type=kind,
        path_or_inline_dv=text,
        offset=offset,
        size_in_bytes=size,
        cardinality=cardinality,
    )


# The examples of PROTOCOL.md, JSON Example 1 to 3.


def test_a_relative_path_has_a_uuid_and_a_prefix():
    stored = stored_vector(descriptor("u", "ab^-aqEH.-t@S}K{vb[*k^", 4, 40, 6))
    assert stored.path == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert not stored.is_absolute
    assert (stored.offset, stored.length) == (4, 48)


def test_a_relative_path_without_prefix_is_in_the_table_s_folder():
    stored = stored_vector(descriptor("u", "^-aqEH.-t@S}K{vb[*k^", 4, 40, 6))
    assert stored.path == "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


def test_an_absolute_path_is_taken_as_it_is():
    path = "s3://mytable/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    stored = stored_vector(descriptor("p", path, 4, 40, 6))
    assert (stored.path, stored.is_absolute) == (path, True)


def test_the_inline_example_deletes_six_rows():
    text = "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
    body = inline_data(descriptor("i", text, None, 40, 6))
    bitmap = decode_bitmap(body)
    check_bitmap(bitmap)
    assert list(BitMap64.deserialize(bitmap)) == [3, 4, 7, 11, 18, 29]


def test_without_an_offset_the_first_vector_of_the_file_is_meant():
    assert stored_vector(descriptor("p", "/dv.bin", None, 40, 6)).offset == 1


@given(st.binary(max_size=64))
def test_z85_round_trip(data):
    decoded = z85_decode(z85_encode(data))
    assert decoded[: len(data)] == data
    assert set(decoded[len(data) :]) <= {0}


@given(st.text(max_size=40))
@example("wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{")
@example("#####")
@example('wi5b"')
def test_any_text_is_z85_or_a_typed_error(text):
    with contextlib.suppress(DeletionVectorError):
        z85_decode(text)


@given(ROWS)
def test_what_a_library_writes_is_found_in_order(rows):
    bitmap = BitMap64(rows).serialize()
    check_bitmap(bitmap)
    body = encode_bitmap(bitmap)
    assert decode_bitmap(unframe(frame(body), descriptor(size=len(body)))) == bitmap


@given(st.integers(0, 1 << 20), st.integers(1, 200_000), st.integers(1, 7), st.booleans())
def test_dense_and_run_containers_are_found_in_order(first, length, step, optimize):
    rows = BitMap64(range(first, first + length, step))
    if optimize:
        rows.run_optimize()
    check_bitmap(rows.serialize())


@given(
    ROWS,
    st.integers(1, 20_000),
    st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=4),
    st.booleans(),
)
def test_a_changed_bitmap_is_refused_or_safe_to_read(rows, length, changes, optimize):
    bitmap = BitMap64(rows | set(range(70_000, 70_000 + length)))
    if optimize:
        bitmap.run_optimize()
    data = bytearray(bitmap.serialize())
    for position, value in changes:
        data[position % len(data)] = value
    try:
        check_bitmap(bytes(data))
    except DeletionVectorError:
        return
    read = BitMap64.deserialize(bytes(data))
    found = list(read)
    assert len(found) == len(read)
    assert found == sorted(set(found))


@given(ROWS, st.integers(1, 60))
def test_a_bitmap_cut_off_or_with_more_bytes_is_refused(rows, count):
    data = BitMap64(rows).serialize()
    with pytest.raises(DeletionVectorError):
        check_bitmap(data[:-count])
    with pytest.raises(DeletionVectorError, match="bytes too many"):
        check_bitmap(data + bytes(count))


def test_a_key_that_java_would_read_as_negative_is_refused():
    data = struct.pack("<QI", 1, 1 << 31) + BitMap64([1]).serialize()[12:]
    with pytest.raises(DeletionVectorError, match="keys of the buckets"):
        check_bitmap(data)


BODY = encode_bitmap(BitMap64([1, 5]).serialize())


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_older_format_is_read_too(order):
    rows = [1, 5, (1 << 32) + 7]
    body = struct.pack(f"{order}II", 1681511376, 2)
    for low in ([1, 5], [7]):
        data = BitMap(low).serialize()
        body += struct.pack(f"{order}I", len(data)) + data
    bitmap = decode_bitmap(body)
    check_bitmap(bitmap)
    assert list(BitMap64.deserialize(bitmap)) == rows
    for cut in range(4, len(body)):
        with pytest.raises(DeletionVectorError, match="truncated"):
            decode_bitmap(body[:cut])
    with pytest.raises(DeletionVectorError, match="1 bytes too many"):
        decode_bitmap(body + b"\0")


def test_a_frame_cut_off_is_refused():
    with pytest.raises(DeletionVectorError, match="the file ends after"):
        unframe(frame(BODY)[:-1], descriptor(size=len(BODY)))


def test_another_size_than_the_log_s_is_refused():
    with pytest.raises(DeletionVectorError, match="bytes in the file, but"):
        unframe(frame(BODY), descriptor(size=len(BODY) - 1))


def test_a_wrong_checksum_is_refused():
    data = bytearray(frame(BODY))
    data[6] ^= 1
    with pytest.raises(DeletionVectorError, match="checksum"):
        unframe(bytes(data), descriptor(size=len(BODY)))


def test_another_magic_number_is_refused():
    with pytest.raises(DeletionVectorError, match="is 1681511378, not"):
        decode_bitmap((1681511378).to_bytes(4, "little") + BODY[4:])
    with pytest.raises(DeletionVectorError, match="magic number"):
        decode_bitmap(b"")


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (descriptor("x", "abc"), "unknown storage type 'x'"),
        (descriptor("u", "abc"), "has no UUID"),
        (descriptor("u", "\x01" * 20), "isn't a Z85 character"),
        (descriptor("p", "/dv.bin", -3, 4), "offset -3 is negative"),
        (descriptor("p", "/dv.bin", 1, -4), "-4 bytes"),
    ],
)
def test_a_descriptor_that_breaks_the_format_is_refused(vector, message):
    with pytest.raises(DeletionVectorError, match=message):
        stored_vector(vector)


def test_inline_bytes_of_another_number_than_the_log_s_are_refused():
    text = z85_encode(BODY)
    with pytest.raises(DeletionVectorError, match="the log says"):
        inline_data(descriptor("i", text, None, len(BODY) + 1, 2))


def test_a_descriptor_leads_to_the_file_it_was_made_for():
    file = uuid.uuid4()
    for prefix in ("", "ab3"):
        descriptor = vector_in_file(file, prefix, offset=7, size=34, cardinality=2)
        stored = stored_vector(descriptor)
        assert stored.path == file_path(file, prefix)
        assert (stored.offset, stored.length, stored.is_absolute) == (7, 42, False)
