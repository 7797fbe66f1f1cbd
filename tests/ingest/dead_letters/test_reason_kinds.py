"""Kinds of reasons: few, and without values of records."""

from __future__ import annotations

import pytest

from bayou.ingest.dead_letters.reason_kinds import count_kinds, reason_kind


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("not valid JSON: trailing comma", "not valid JSON"),
        ("not readable JSON: nested too deeply", "not valid JSON"),
        ("not a JSON object", "not a JSON object"),
        ("field 'age': 'secret' doesn't fit its type int", "'age' isn't int"),
        ("field 'a.b': '' doesn't fit its type decimal(9,2)", "'a.b' isn't decimal(9,2)"),
        ("field 'x': 1.23 would lose digits in its type int: set", "'x' would lose digits"),
        ('schema: field \'id\': "secret" is not of type "number"', "'id' violates the schema"),
        ('schema: "id" is a required property', "violates the schema"),
        ("unknown field 'secret': schema evolution is disabled", "unknown field"),
        ("7 new fields, but max-new-columns allows 5", "too many new fields"),
        ("the Kafka key: 'secret' isn't JSON", "invalid Kafka key"),
        ("processing.columns.total: secret overflows", "processing.columns.total fails"),
        (
            "destination.route-by: the value 's' has no table, because max-tables (2) is reached",
            "max-tables is reached",
        ),
        (
            "destination.route-by: the value is NULL, and on-null is dead-letter",
            "the value of route-by has no table",
        ),
        ("destination.route-by: 'secret' isn't a number", "destination.route-by fails"),
        ("the record has no value", "no value"),
        ("secret", "other"),
    ],
)
def test_a_kind_names_the_field_and_no_value(reason, kind):
    assert reason_kind(reason) == kind


def test_only_the_most_frequent_kinds_are_named():
    counts = {f"field 'f{n}': x doesn't fit its type int": n + 1 for n in range(30)}
    kinds = count_kinds(counts)
    assert len(kinds) == 11
    assert kinds["'f29' isn't int"] == 30
    assert sum(kinds.values()) == sum(counts.values())
    assert kinds["other"] == sum(range(1, 21))
