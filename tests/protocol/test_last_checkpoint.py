from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.protocol.last_checkpoint import LastCheckpoint, canonical_json, checksum, encode, parse

# The vector of PROTOCOL.md, JSON checksum.
SAMPLE = (
    '{"k0":"\'v 0\'", "checksum": "adsaskfljadfkjadfkj", "k1":{"k2": 2, "k3": '
    '["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]}}'
)
CANONICAL = (
    '"k0"="%27v%200%27","k1"+"k2"=2,"k1"+"k3"+0="v3","k1"+"k3"+1+0=1,"k1"+"k3"+1+1=2,'
    '"k1"+"k3"+2+"k4"="v4","k1"+"k3"+2+"k5"+0="v5","k1"+"k3"+2+"k5"+1="v6",'
    '"k1"+"k3"+2+"k5"+2="v7"'
)


def test_the_specs_sample_has_its_canonical_form_and_checksum():
    assert canonical_json(SAMPLE) == CANONICAL
    assert checksum(SAMPLE) == "6a92d155a59bf2eecbd4b4ec7fd1f875"


def test_a_number_keeps_the_text_it_has():
    assert canonical_json('{"a": 1.50, "b": [true, null], "c": 1E5}') == (
        '"a"=1.50,"b"+0=true,"b"+1=null,"c"=1E5'
    )


@given(
    st.builds(
        LastCheckpoint,
        version=st.integers(0, 2**63 - 1),
        size=st.integers(0, 2**63 - 1),
        parts=st.none() | st.integers(1, 10**9),
        size_in_bytes=st.none() | st.integers(0, 2**63 - 1),
        num_of_add_files=st.none() | st.integers(0, 2**63 - 1),
        tags=st.none() | st.dictionaries(st.text(), st.text()),
    )
)
def test_a_pointer_survives_its_encoding(pointer):
    assert parse(encode(pointer)) == pointer


def test_names_are_those_of_the_spec():
    pointer = LastCheckpoint(version=3, size=4, size_in_bytes=5, num_of_add_files=2, parts=2)
    written = json.loads(encode(pointer))
    assert set(written) == {"version", "size", "sizeInBytes", "numOfAddFiles", "parts", "checksum"}


def test_a_wrong_checksum_makes_the_file_worthless():
    data = encode(LastCheckpoint(version=3, size=4)).replace(b'"size":4', b'"size":5')
    assert parse(data) is None


def test_a_pointer_without_checksum_is_taken():
    assert parse(b'{"version":2,"size":9,"unknown":{"a":1}}') == LastCheckpoint(version=2, size=9)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"size":1}',
        b'{"version":"1","size":1}',
        b'{"version":-1,"size":1}',
        b"\xff\xfe",
    ],
)
def test_a_corrupt_file_is_none(data):
    assert parse(data) is None


def test_what_isnt_an_object_has_no_canonical_form():
    with pytest.raises(msgspec.DecodeError):
        canonical_json("[1]")
