"""Records, split by the value of an expression."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest

from bayou.ingest.batch.expressions import RowExpressions, route_value, row_filter
from bayou.ingest.config.routing import value_fingerprint, value_name
from bayou.ingest.config.topic import TopicConfig
from bayou.ingest.decode import DecodePlan
from bayou.ingest.decode.formats import RecordFormat
from bayou.ingest.routing.router import RecordRouter, RecordRouting
from bayou.protocol.schema import STRING, StructField, StructType

COLUMNS = StructType((StructField(name="kind", data_type=STRING),))


def source(*values):
    count = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.nulls(count, pa.binary()),
            "value": pa.array(
                [v if isinstance(v, bytes) else json.dumps(v).encode() for v in values],
                pa.binary(),
            ),
            "topic": ["t"] * count,
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([dt.datetime.now(dt.UTC)] * count, pa.timestamp("us", "UTC")),
            "headers": pa.nulls(count, pa.binary()),
        }
    )


def router(expression="kind", *, where=None, columns=COLUMNS, named=(), other=None, **more):
    config = TopicConfig.model_validate(
        {
            "kafka-topic": "t",
            "destination": {
                "table-path": "t",
                "route-by": {"expression": expression, "table-path": "x_{value}"},
            },
            "processing": {} if where is None else {"where": where},
        }
    )
    settings = {
        "listed": {},
        "named": other
        or {value_name(v): (n, value_fingerprint(v)) for n, v in enumerate(named, start=1)},
        "reserved": frozenset(),
        "refused": {},
        "unknown": None,
        "null": 0,
        **more,
    }
    unseen = not columns.fields
    return RecordRouter(
        RecordRouting(
            plan=DecodePlan(
                columns=columns,
                json_schema=None,
                discover=unseen,
                ignore=not unseen,
                only=frozenset({"kind"}),
            ),
            format=RecordFormat(),
            expressions=RowExpressions(where=row_filter(config, columns)),
            value=route_value(config, columns),
            ingestion_timestamp=0,
            **settings,
        )
    )


def offsets(routed):
    return {number: b.column("offset").to_pylist() for number, b in routed.tables.items()}


def test_records_keep_their_order_in_each_table():
    found = router(named=("a", "b"))
    records = source(*({"kind": k, "x": n} for n, k in enumerate("abba")), {"x": 4})
    assert offsets(found.split(records)) == {0: [4], 1: [0, 3], 2: [1, 2]}
    assert not found.new_values


def test_values_without_a_known_table_are_counted():
    found = router(named=("a",))
    for _ in range(2):
        routed = found.split(source({"kind": "a"}, {"kind": "x/y"}, {"kind": "x/y"}, {"kind": ""}))
        assert offsets(routed) == {1: [0]}
        assert routed.dead_letters is None
    assert found.new_values == {"x/y": 4, "": 2}


def test_a_field_without_a_type_is_reported_before_any_record():
    found = router(columns=StructType())
    assert not found.split(source({"kind": "a", "other": 1})).tables
    assert found.new_fields == COLUMNS


def test_another_value_with_the_same_name_is_a_dead_letter_and_not_mixed_in():
    other = {value_name("a/b"): (1, value_fingerprint("a?b"))}
    routed = router(other=other).split(source({"kind": "a/b"}))
    assert not routed.tables
    (reason,) = routed.dead_letters.column("reason").to_pylist()
    assert "'a/b' has the same table name as another value: a_b_" in reason


@pytest.mark.parametrize("unknown", [0, "has no table"])
def test_other_values_go_to_the_default_table_or_become_dead_letters(unknown):
    routed = router(listed={"a": 1}, unknown=unknown, null=None).split(
        source({"kind": "a"}, {"kind": "b" * 200}, {}, b"{")
    )
    reasons = routed.dead_letters.column("reason").to_pylist()
    assert "destination.route-by: the value is NULL, and on-null is dead-letter" in reasons
    if unknown == 0:
        assert offsets(routed) == {0: [1], 1: [0]}
        assert len(reasons) == 2
    else:
        assert offsets(routed) == {1: [0]}
        assert any(len(reason) < 170 and reason.endswith("has no table") for reason in reasons)
        assert len(reasons) == 3


def test_records_that_where_filters_out_are_counted_and_report_no_value():
    found = router(where="kind <> 'x'", named=("a",))
    routed = found.split(source({"kind": "a"}, {"kind": "x"}, {}))
    assert offsets(routed) == {1: [0]}
    assert (found.filtered, dict(found.new_values)) == (2, {})


def test_an_expression_that_fails_is_the_reason_of_a_dead_letter():
    routed = router("CAST(kind AS INT)", named=("5",)).split(source({"kind": "05"}, {"kind": "x"}))
    assert offsets(routed) == {1: [0]}
    (reason,) = routed.dead_letters.column("reason").to_pylist()
    assert reason.startswith("destination.route-by: ")
