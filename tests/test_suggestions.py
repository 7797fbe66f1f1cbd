"""Suggestions for misspelled names."""

from __future__ import annotations

import pytest

from bayou.suggestions import closest, did_you_mean

KNOWN = ("table-path", "Migration", "kafka-topic", "kafka-topics-of-a-pattern", "a-broker-of-kafka")


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("tabel-path", "table-path"),
        ("MIGRATIONS", "Migration"),
        ("path", "table-path"),
        ("kafka", None),  # several names have this word
        ("destination", None),
        ("x", None),
    ],
)
def test_a_similar_name_or_the_only_name_with_the_word_is_suggested(name, suggested):
    assert closest(name, KNOWN) == suggested


def test_a_suggestion_is_a_sentence():
    assert did_you_mean("path", KNOWN) == " Did you mean 'table-path'?"
    assert did_you_mean("x", KNOWN) == ""
