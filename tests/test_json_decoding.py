"""JSON of others has one error, whatever is wrong with it."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

import bayou
from bayou.json_decoding import JsonDecoder, decode_json, without_lone_surrogates


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"\xff",
        b'"\xff\xfe"',
        b'"\\ud800"',
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        "\ud800",
        '"\ud800"',
    ],
    ids=range(9),
)
def test_everything_that_cannot_be_read_is_a_decode_error(text):
    with pytest.raises(msgspec.DecodeError):
        decode_json(text, object)
    with pytest.raises(msgspec.DecodeError):
        JsonDecoder(object, float_hook=Decimal).decode(text)


def test_a_number_that_a_hook_refuses_is_a_decode_error():
    def refuse(text: str) -> float:
        raise OverflowError(text)

    with pytest.raises(msgspec.DecodeError, match=r"1\.5"):
        JsonDecoder(object, float_hook=refuse).decode(b"1.5")


@pytest.mark.parametrize("layer", ["protocol", "kernel"])
def test_nothing_of_a_log_is_decoded_in_another_way(layer):
    raw = re.compile(r"msgspec\.json\.(decode|Decoder)\(|json\.loads\(")
    folder = Path(bayou.__file__).parent / layer
    found = [str(f) for f in folder.rglob("*.py") if raw.search(f.read_text(encoding="utf-8"))]
    assert found == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (rb'"\ud83d\ude00"', rb'"\ud83d\ude00"'),
        (rb'"\ud83d"', rb'"\ufffd"'),
        (rb'"\uDE00\uD83Da"', rb'"\ufffd\ufffda"'),
        (rb'"\ud83d\ud83d\ude00"', rb'"\ufffd\ud83d\ude00"'),
        (rb'"\\ud83d"', rb'"\\ud83d"'),  # a backslash, and text
        (rb'"\\\ud83d\n"', rb'"\\\ufffd\n"'),
    ],
)
def test_escapes_of_half_a_character_are_replaced(text, expected):
    assert without_lone_surrogates(text) == expected
