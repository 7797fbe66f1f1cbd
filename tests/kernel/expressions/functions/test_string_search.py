"""Regular expressions: linear in the length of a text, and the groups of Java's."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bayou.errors import PredicateError
from bayou.kernel.expressions.evaluation import Evaluator
from bayou.kernel.expressions.model import call, col
from bayou.kernel.expressions.resolution import resolve_expression
from bayou.protocol.schema import STRING, StructField, StructType

SCHEMA = StructType((StructField(name="s", data_type=STRING),))
_END = "(?=(?:\r\n|[\n\r\x85\u2028\u2029])?\\Z)"


def evaluated(name, texts, *arguments):
    expression = resolve_expression(call(name, col("s"), *arguments), SCHEMA)
    batch = pa.RecordBatch.from_pydict({"s": pa.array(texts, pa.string())})
    return Evaluator(SCHEMA, expression).values(batch).to_pylist()


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("regexp_extract", ("(a+)+b", 0)),
        ("regexp_replace", ("(a+)+b", "")),
        ("regexp_replace", ("(a|aa)+$", "x")),
        ("split", ("(a+)+b",)),
        ("rlike", ("(a+)+b",)),
    ],
)
def test_no_pattern_takes_exponential_time(function, arguments):
    text = "a" * 5_000 + "!"  # a backtracking engine would take 2^5000 steps
    (found,) = evaluated(function, [text], *arguments)
    assert found in ("", text, [text], False)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a)\1",
        "a(?=b)",
        "a(?!b)",
        "(?<=a)b",
        "(?<!a)b",
        "(?>a)b",
        "a++b",
        "a$b",
        "(a$)*",
        "(a*)*",
        "(a|b?)+",
        "[a&&b]",
    ],
)
@pytest.mark.parametrize(
    ("function", "more"), [("regexp_extract", (0,)), ("regexp_replace", ("x",)), ("split", ())]
)
def test_what_re2_cannot_express_is_refused_by_name(function, more, pattern):
    with pytest.raises(PredicateError, match="isn't supported") as error:
        evaluated(function, ["ab"], pattern, *more)
    assert repr(pattern) in str(error.value)


@pytest.mark.parametrize("pattern", ["(", "a)", "[b-a]", "a{3,1}"])
def test_what_is_no_pattern_is_an_error_before_any_row_is_read(pattern):
    with pytest.raises(PredicateError):
        resolve_expression(call("regexp_extract", col("s"), pattern), SCHEMA)


def patterns():
    atoms = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\W", "1", "é", r"\n"])
    repeats = st.sampled_from(["", "", "", "*", "+", "?", "*?", "+?", "??", "{1,2}"])
    pieces = st.tuples(atoms, repeats).map("".join)

    def nested(inner):
        sequences = st.lists(inner, min_size=1, max_size=3).map("".join)
        branches = st.lists(sequences, min_size=1, max_size=2).map("|".join)
        opening = st.sampled_from(["(", "(?:"])
        return st.builds("{}{}){}".format, opening, branches, repeats) | sequences

    body = st.recursive(pieces, nested, max_leaves=6)
    return st.builds(
        "{}{}{}".format, st.sampled_from(["", "", "^"]), body, st.sampled_from(["", "", "$"])
    )


def oracle(pattern):
    """Python's engine, which has Java's matches and groups."""
    translated = re.sub(
        r"(\\.|\[[^]]*\])|(\.)|(\$)",
        lambda m: m[1] or ("[^\n\r\x85\u2028\u2029]" if m[2] else _END),
        pattern,
    )
    return re.compile(translated, re.ASCII)


TEXTS = st.text(alphabet="aab1é\n\r\u2028", max_size=7)


@settings(max_examples=150)
@given(patterns(), st.lists(TEXTS, min_size=1, max_size=5))
def test_each_group_is_that_of_a_backtracking_engine(pattern, texts):
    expected = oracle(pattern)
    for group in range(expected.groups + 1):
        try:
            found = evaluated("regexp_extract", [*texts, None], pattern, group)
        except PredicateError:
            assume(False)
        matches = [expected.search(text) for text in texts]
        assert found == [*("" if m is None else m[group] or "" for m in matches), None]


@settings(max_examples=150)
@given(
    patterns(),
    st.sampled_from(["", "x", "$0-", "<$1>", r"\$\\", "$2$1", "a"]),
    st.lists(TEXTS, min_size=1, max_size=5),
)
def test_each_replacement_is_that_of_a_backtracking_engine(pattern, replacement, texts):
    try:
        found = evaluated("regexp_replace", [*texts, None], pattern, replacement)
    except PredicateError:
        assume(False)

    def written(match):
        shown = {r"\$\\": "$\\", "$0-": f"{match[0]}-"}.get(replacement, replacement)
        return re.sub(r"\$([1-9])", lambda m: match[int(m[1])] or "", shown)

    def replaced(text):
        # As Java goes on: behind an empty match with the next character, unlike Python.
        result, start, at = "", 0, 0
        while at <= len(text) and (match := oracle(pattern).search(text, at)):
            result += text[start : match.start()] + written(match)
            start = match.end()
            at = start + (match.end() == match.start())
        return result + text[start:]

    assert found == [*map(replaced, texts), None]


@settings(max_examples=100)
@given(patterns(), st.sampled_from([-1, 0, 1, 2, 3]), st.lists(TEXTS, min_size=1, max_size=5))
def test_each_part_is_that_between_matches_of_a_backtracking_engine(pattern, limit, texts):
    try:
        found = evaluated("split", [*texts, None], pattern, limit)
    except PredicateError:
        assume(False)

    def parts(text):
        result, start = [], 0
        for match in oracle(pattern).finditer(text):
            if 0 < limit <= len(result) + 1:
                break
            result.append(text[start : match.start()])
            start = match.end()
        return [*result, text[start:]]

    assert found == [*map(parts, texts), None]
