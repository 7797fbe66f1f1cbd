"""Identifiers in backticks."""

from __future__ import annotations

import pytest

from bayou.protocol.identifiers import quote_identifier, quote_if_needed


@pytest.mark.parametrize(
    ("name", "always", "if_needed"),
    [
        ("a", "`a`", "a"),
        ("a_1", "`a_1`", "a_1"),
        ("a b", "`a b`", "`a b`"),
        ("a`b", "`a``b`", "`a``b`"),
    ],
)
def test_a_name_is_quoted_as_spark_quotes_it(name, always, if_needed):
    assert quote_identifier(name) == always
    assert quote_if_needed(name) == if_needed
