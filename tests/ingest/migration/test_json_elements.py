"""An array's elements are cut out as they stand, wherever the file's chunks end."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayou.ingest.migration import json_elements
from bayou.ingest.migration.json_elements import ArrayError, array_elements
from support.examples import examples

texts = st.text(st.sampled_from('a"\\{}[],: \nü\ud800'), max_size=8)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)


def in_chunks(text, size):
    return (text[start : start + size] for start in range(0, len(text), size))


@given(
    elements=st.lists(values, max_size=5),
    size=st.integers(1, 40),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
)
@settings(max_examples=examples(300))
def test_each_element_comes_whole_wherever_chunks_end(elements, size, indent, ascii_only):
    written = [json.dumps(e, indent=indent, ensure_ascii=ascii_only) for e in elements]
    text = ("[\n" + " ,\r\n".join(written) + "\n]\n").encode(errors="replace")
    found = list(array_elements(in_chunks(text, size)))
    assert found == [w.encode(errors="replace") for w in written]


ODD = [b'{"a":123456789012345678901234567890}', b'{"a":1e400}', b'{"a":NaN}', b'{"a":"\\ud800"}']
ODD += [b'{"a":"\xff"}', b'{"a":"x\ny"}', b'{"a":' + b"9" * 5000 + b"}"]
ODD += [b'{"a":' * 5000 + b"1" + b"}" * 5000]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd[:20]))
def test_what_no_column_takes_is_an_element_as_any_other(odd):
    text = b'[{"b":1},' + odd + b',{"b":2}]'
    assert list(array_elements(in_chunks(text, 7))) == [b'{"b":1}', odd, b'{"b":2}']


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "found the end instead of '['"),
        ("[1,", "an element of the array is expected, but there is the end"),
        ("[1,]", "an element of the array is expected, but there is ']'"),
        ("[1 2]", "an element isn't JSON: '1 2'"),
        ('[1,{"a":1', "the file ends in the middle of an element"),
        ('[1,"a', "the file ends in the middle of an element"),
        ('[1,{"a":"x},{"b":"y"}]', "the file ends in the middle of an element"),
        ('[1,{"a":"x},{"b":"y},{"c":1}]', "an element isn't JSON"),
        ('[1,{"a":1]]', "an element isn't JSON"),
        ('[1,{"a" 1}]', "an element isn't JSON"),
        ("[1}", "found '}' instead of ',' or ']'"),
        ("[1][2]", "found '[' instead of the end"),
        ("[1]\0", r"found '\x00' instead of the end"),
    ],
)
def test_what_is_no_array_is_told_behind_the_elements_before_it(text, reason):
    elements = array_elements(in_chunks(text.encode(), 5))
    if text.startswith("[1") and text != "[1 2]":
        assert next(elements) == b"1"
    with pytest.raises(ArrayError, match=re.escape(reason)):
        next(elements)


def test_a_bracket_that_is_never_closed_takes_bounded_memory(monkeypatch):
    monkeypatch.setattr(json_elements, "LONGEST", 1 << 20)

    def chunks():
        yield b'[{"a":{"b":1},'
        while True:
            yield b'"c":{"d":1},' * 10_000

    with pytest.raises(ArrayError, match="more than 1 MB, or is never closed"):
        list(array_elements(chunks()))
