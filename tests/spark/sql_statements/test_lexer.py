"""Words of statements, told quickly and thoroughly."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bayou.errors import StatementError
from bayou.spark.sql_statements.token_cursor import fast_tokens, tokenize

PIECES = st.sampled_from(
    [
        *("SELECT", "from", "Join", "t", "db", "_x", "ä", "GROUP BY", "delta"),
        *("'it''s'", '"a ""b"""', "`a ``b`", "'a; b'", "''", "``"),
        *("(", ")", ",", ".", ";", "=", "<>", "*", "||", "::", ":a", "?", "{f}"),
    ]
)


def shown(found):
    """What tells tables: names, texts and single signs."""
    return [
        (token.text, token.is_name, token.is_string, token.start)
        for token in found
        if token.is_name or token.is_string or token.text in "(),.;"
    ]


@given(st.lists(PIECES))
@example(["SELECT", "a", ",", "'x FROM y'", "from", "db", ".", "`u v`", "Join", "(", "t", ")"])
def test_a_glance_sees_names_and_texts_as_the_lexer_does(pieces):
    text = " ".join(pieces)
    assert shown(fast_tokens(text)) == shown(tokenize(text))


@pytest.mark.parametrize(
    "text",
    ["SELECT 1 -- 'FROM t", "SELECT /* FROM t */ 1", r"SELECT 'it\'s' FROM t", "SELECT $1 # x"],
)
def test_comments_and_escapes_are_left_to_the_lexer(text):
    assert fast_tokens(text) == tokenize(text)


@pytest.mark.parametrize("text", ["SELECT 'a", 'SELECT "a FROM t', "SELECT `a", "'a'b'"])
def test_an_open_quote_is_refused(text):
    with pytest.raises(StatementError, match="Close its quotes"):
        fast_tokens(text)
