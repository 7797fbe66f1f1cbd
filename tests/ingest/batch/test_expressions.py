"""Derived columns, a filter and dropped fields: `processing.columns`, `where` and `drop`."""

from __future__ import annotations

import decimal
import io
from pathlib import Path

import fastavro
import pytest

import bayou
from bayou.errors import ConfigurationError, PipelineError
from bayou.ingest.dead_letters.dead_letter_replay import replay_dead_letters
from bayou.ingest.inspection import prove_offsets
from support.processed_pipelines import EVENTS, HOURS, TEN, configured, event, proof, reasons, rows

EXAMPLE = Path(__file__).parents[3] / "examples" / "local" / "derived.yaml"


@pytest.mark.parametrize("evolves", [False, True])
@pytest.mark.parametrize("schema", [EVENTS, None])
def test_rows_have_the_derived_columns_and_filtered_records_are_counted(processed, schema, evolves):
    pipeline = processed(HOURS, schema=schema, evolves=evolves)
    pipeline.produce(event(1), event(2, "heartbeat"), event(3, "view"))
    report = pipeline.take_in()
    assert (report.rows, report.filtered, report.dead_letters) == (2, 1, 0)
    assert report.records == 3
    assert rows(pipeline, "id", "hour") == [(1, TEN), (3, TEN)]
    assert "event_time" not in pipeline.table.snapshot().schema.names
    pipeline.produce(event(4))
    pipeline.take_in()
    assert rows(pipeline, "id", "hour") == [(1, TEN), (3, TEN), (4, TEN)]


def test_a_record_whose_expression_fails_is_a_dead_letter_with_the_name(processed):
    pipeline = processed("""
columns:
  cents: "CAST(amount AS DECIMAL(10,2)) * 100"
  number: "CAST(amount AS INT)"
where: "CAST(event_type AS INT) > 0"
""")
    good = [event(n, "1", amount=f"{n}") for n in range(100)]
    good[17]["amount"] = "much"
    good[60]["event_type"] = "click"
    good[99]["event_type"] = "0"
    pipeline.produce(*good)
    report = pipeline.take_in()
    assert (report.rows, report.filtered, report.dead_letters) == (97, 1, 2)
    first, second = reasons(pipeline)
    assert first.startswith("processing.columns.cents: ")
    assert "much" in first
    assert second.startswith("processing.where: ")
    assert prove_offsets(pipeline.configuration, pipeline.topic).partitions[0].dead_letters == 2


def test_a_record_that_is_filtered_out_is_not_validated_and_adds_no_column(processed):
    pipeline = processed("where: \"event_type <> 'heartbeat'\"", evolves=True)
    pipeline.produce(
        {"id": 1, "event_type": "click", "color": "red"},
        {"id": "no number", "event_type": "heartbeat", "uptime": 17},
        b"no json",
    )
    report = pipeline.take_in()
    assert (report.rows, report.filtered, report.dead_letters) == (1, 1, 1)
    names = pipeline.table.snapshot().schema.names
    assert "color" in names
    assert "uptime" not in names
    assert prove_offsets(pipeline.configuration, pipeline.topic).partitions[0].dead_letters == 1


@pytest.mark.parametrize("more", [{}, {"color": "red"}])
def test_an_invalid_record_is_a_dead_letter_unless_the_condition_is_false(processed, more):
    schema = {**EVENTS, "required": ["event_type"]}
    pipeline = processed("where: \"event_type <> 'heartbeat'\"", schema=schema, evolves=True)
    pipeline.produce(
        event(1, **more),
        {"id": 2, "uptime": 3},  # the condition is NULL
        {"id": "x", "event_type": "heartbeat", "uptime": 3},
        {"id": "y", "event_type": "click"},
    )
    report = pipeline.take_in()
    assert (report.rows, report.filtered, report.dead_letters) == (1, 1, 2)
    assert "uptime" not in pipeline.table.snapshot().schema.names
    assert proof(pipeline).holds


def test_an_invalid_record_beside_new_nested_fields_is_a_dead_letter_if_the_condition_is_null(
    processed,
):
    place = {"type": "object", "properties": {"city": {"type": "string"}}}
    schema = {
        **EVENTS,
        "required": ["id"],
        "properties": {**EVENTS["properties"], "place": place},
    }
    pipeline = processed("where: \"event_type <> 'x'\"", schema=schema, evolves=True)
    pipeline.produce(event(1, color="red"), {"place": {"city": "a", "state": "LA"}})
    report = pipeline.take_in()
    assert (report.rows, report.filtered, report.dead_letters) == (1, 0, 1)


@pytest.mark.parametrize(
    "condition",
    [
        "tags IS NULL OR array_contains(tags, 'x') OR a = 1 OR b = 2",
        "a IS NULL OR b = 1 OR size(tags) > 0 OR size(more) > 0 OR c LIKE 'x%'",
        "tags IS NULL OR tags[0].name = 'x'",
        "tags IS NULL OR tags[0].inner.name[1] = 'x'",
        "coalesce(tags[0].name, 'none') = 'none'",
        "NOT coalesce(array_contains(flags, true), false)",
    ],
)
def test_a_condition_that_is_true_without_its_fields_selects_records(processed, condition):
    pipeline = processed(f'where: "{condition}"', schema=None, evolves=True)
    pipeline.produce({"id": 1}, {"id": 2})
    report = pipeline.take_in()
    assert (report.rows, report.filtered) == (2, 0)
    assert proof(pipeline).holds


def test_joined_names_are_empty_if_a_record_has_no_names(processed):
    pipeline = processed("""columns: {name: "concat_ws(' ', event_type, amount)"}""")
    pipeline.produce(event(1, amount="a"), {"id": 2}, event(3))
    report = pipeline.take_in()
    assert (report.rows, report.dead_letters) == (3, 0)
    assert rows(pipeline, "id", "name") == [(1, "click a"), (2, ""), (3, "click")]


@pytest.mark.parametrize("drop", [False, True])
def test_a_frozen_table_has_no_derived_value_of_a_field_that_it_ignores(processed, drop):
    lines = 'columns: {total: "CAST(price * qty AS BIGINT)"}'
    pipeline = processed(lines + ("\ndrop: [qty]" if drop else ""), schema=None)
    text = pipeline.file.read_text().replace("          enable-schema-evolution: false\n", "")
    pipeline.file.write_text(
        text.replace("      destination:", "      schema-policy: freeze\n      destination:")
    )
    pipeline.produce({"id": 1, "price": 2})
    pipeline.take_in()
    pipeline.produce({"id": 2, "price": 2, "qty": 5, "color": "red"}, {"id": 3, "price": 2})
    report = pipeline.take_in()
    expected = [(1, None), (2, 10), (3, None)] if drop else [(1, None), (3, None)]
    assert rows(pipeline, "id", "total") == expected
    assert report.dead_letters == (0 if drop else 1)
    result = replay_dead_letters(pipeline.configuration, pipeline.topic)
    assert (result.replayed, result.refused) == (0, report.dead_letters)
    assert "qty" not in pipeline.table.snapshot().schema.names


def test_a_derived_column_of_unknown_fields_has_the_type_of_its_cast(processed):
    pipeline = processed(
        """columns: {first: "CAST(tags[0].name AS STRING)", second: "tags[1].name"}""",
        schema=None,
        evolves=True,
    )
    pipeline.produce({"id": 1})
    pipeline.take_in()
    assert rows(pipeline, "id", "first") == [(1, None)]
    pipeline.produce({"id": 2, "tags": [{"name": "x"}, {"name": "y"}]})
    pipeline.take_in()
    assert rows(pipeline, "id", "first", "second") == [(1, None, None), (2, "x", "y")]


def test_an_expression_sees_the_derived_columns_above_it_and_a_field_that_it_replaces(processed):
    pipeline = processed("""
columns:
  amount: "CAST(amount AS DOUBLE)"
  doubled: "amount * 2"
where: "doubled > 3"
""")
    pipeline.produce({"id": 1, "amount": "1.5"}, {"id": 2, "amount": "2.5"})
    report = pipeline.take_in()
    assert (report.rows, report.filtered) == (1, 1)
    assert rows(pipeline, "id", "amount", "doubled") == [(2, 2.5, 5.0)]


def test_an_expression_reads_a_field_of_a_derived_struct(processed):
    pipeline = processed(
        'columns: {first: "tags[0]", name: "FIRST.name"}', schema=None, evolves=True
    )
    pipeline.produce({"id": 1, "tags": [{"name": "x"}, {"name": "y"}]})
    pipeline.take_in()
    assert rows(pipeline, "first", "name") == [({"name": "x"}, "x")]


def test_expressions_read_the_metadata_of_kafka(processed):
    pipeline = processed("""
columns: {source: "concat(_kafka_topic, ':', _kafka_partition, ':', _kafka_offset)"}
where: "_kafka_timestamp > TIMESTAMP'2020-01-01 00:00:00' AND _kafka_key IS NULL"
""")
    pipeline.produce({"id": 1})
    pipeline.take_in()
    assert rows(pipeline, "source") == [(f"{pipeline.kafka_topic}:0:0",)]


def test_the_example_of_the_guide_derives_its_columns(small_pipeline):
    lines = EXAMPLE.read_text().split("      destination:\n")[1]
    head = small_pipeline.file.read_text().split("      schema-file")[0]
    small_pipeline.file.write_text(f"{head}      destination:\n{lines}")
    small_pipeline.produce(
        {"event_type": "click", "event_time": "2026-01-05T10:30:00Z", "email": "Jo@Example.org"},
        {"event_type": "heartbeat"},
    )
    assert small_pipeline.take_in().filtered == 1
    table = bayou.table(str(small_pipeline.folder / "lake" / "user_events"))
    (row,) = table.to_arrow().to_pylist()
    assert (row["hour"], row["domain"], row["is_late"]) == (TEN, "example.org", True)
    assert row["event_time"] == TEN.replace(minute=30)
    assert "email" not in row
    assert table.detail().clustering_columns == ("hour", "domain")
    guide = (EXAMPLE.parents[2] / "docs" / "guide" / "kafka.md").read_text()
    assert lines.split("      processing:\n")[1] in guide


@pytest.mark.parametrize("layout", ["partition-columns: [day]", "cluster-by: [day]"])
@pytest.mark.parametrize("upserts", [False, True])
def test_derived_columns_partition_or_cluster_the_table(processed, layout, upserts):
    pipeline = processed(
        "columns: {day: \"date_format(event_time, 'yyyy-MM-dd')\"}",
        upserts=upserts,
        destination=f"        {layout}\n",
    )
    pipeline.produce(event(1), event(2))
    pipeline.take_in()
    pipeline.produce({**event(1), "event_time": "2026-02-01T00:00:00Z"})
    pipeline.take_in()
    detail = pipeline.table.detail()
    assert ("day",) in (detail.partition_columns, detail.clustering_columns)
    days = [day for (day,) in rows(pipeline, "day")]
    expected = ["2026-01-05", "2026-02-01"] if upserts else ["2026-01-05"] * 2 + ["2026-02-01"]
    assert days == expected


def test_year_month_and_day_come_from_a_derived_event_time(processed):
    pipeline = processed(
        'columns: {at: "timestamp_millis(ms)"}\ndrop: [ms]',
        schema=None,
        destination="        partition-columns: [year, month]\n",
    )
    text = pipeline.file.read_text().replace(
        "      processing:", "      event-time: at\n      processing:"
    )
    pipeline.file.write_text(text)
    pipeline.produce({"id": 1, "ms": 1_767_571_200_000})
    pipeline.take_in()
    assert rows(pipeline, "year", "month") == [("2026", "01")]
    assert "ms" not in pipeline.table.snapshot().schema.names
    pipeline.produce({"id": 2, "ms": 1_772_571_200_000})
    pipeline.take_in()
    assert rows(pipeline, "year", "month") == [("2026", "01"), ("2026", "03")]


def test_a_field_that_no_record_has_had_yet_is_null(processed):
    pipeline = processed(
        """
columns: {shout: "upper(word)", word_or_id: "coalesce(word, 'none')", first: "tags[0].name"}
where: "hidden IS NULL OR NOT hidden"
""",
        schema=None,
        evolves=True,
    )
    pipeline.produce({"id": 1})
    report = pipeline.take_in()
    assert (report.rows, report.filtered) == (1, 0)
    assert rows(pipeline, "id", "shout") == [(1, None)]
    assert "first" not in pipeline.table.snapshot().schema.names
    pipeline.produce(
        {"id": 2, "word": "a", "tags": [{"name": "x"}], "hidden": False}, {"id": 3, "hidden": True}
    )
    report = pipeline.take_in()
    assert (report.rows, report.filtered) == (1, 1)
    assert rows(pipeline, "id", "shout", "word_or_id", "first") == [
        (1, None, None, None),
        (2, "A", "a", "x"),
    ]


@pytest.mark.parametrize("evolves", [False, True])
def test_a_batch_that_is_filtered_out_defines_no_columns(processed, evolves):
    pipeline = processed("where: \"event_type <> 'heartbeat'\"", schema=None, evolves=evolves)
    pipeline.produce({"event_type": "heartbeat", "uptime": 5})
    assert pipeline.take_in().filtered == 1
    pipeline.produce(event(1), event(2, "heartbeat"))
    report = pipeline.take_in()
    assert (report.rows, report.filtered, report.dead_letters) == (1, 1, 0)
    assert rows(pipeline, "id", "event_type") == [(1, "click")]
    assert "uptime" not in pipeline.table.snapshot().schema.names
    assert proof(pipeline).holds


def test_a_new_field_of_a_type_that_an_expression_cannot_take_makes_dead_letters(processed):
    pipeline = processed('columns: {shout: "upper(word)"}', schema=None, evolves=True)
    pipeline.produce({"id": 1})
    pipeline.take_in()
    pipeline.produce({"id": 2, "word": [1, 2]}, {"id": 3})
    report = pipeline.take_in()
    assert (report.rows, report.dead_letters) == (1, 1)
    assert "'word'" in reasons(pipeline)[0]


def test_dropped_fields_are_not_read_and_the_column_of_an_older_table_stays(processed):
    pipeline = processed("max-retries: 0", schema=None, evolves=True)
    pipeline.produce({"id": 1, "Raw": "x"})
    pipeline.take_in()
    configured(pipeline, "drop: [raw]", schema=None)
    pipeline.produce({"id": 2, "raw": {"anything": [1]}}, {"id": 3, "RAW": 5})
    report = pipeline.take_in()
    assert (report.rows, report.dead_letters, report.new_columns) == (2, 0, ())
    assert rows(pipeline, "id", "Raw") == [(1, "x"), (2, None), (3, None)]


def test_an_expression_reads_masked_values(processed):
    pipeline = processed('columns: {copied: "event_type"}\nwhere: "event_type <> \'cl\'"')
    text = pipeline.file.read_text()
    masks = "      masks: {event_type: 'truncate:2'}\n      processing:"
    pipeline.file.write_text(text.replace("      processing:", masks))
    pipeline.produce(event(1), event(2, "view"))
    assert pipeline.take_in().filtered == 1
    assert rows(pipeline, "id", "copied") == [(2, "vi")]


def test_an_upsert_skips_records_that_are_filtered_out(processed):
    pipeline = processed(HOURS, upserts=True)
    pipeline.produce(event(1), event(2), event(1, "heartbeat"), {"event_type": "heartbeat"})
    report = pipeline.take_in()
    assert (report.rows, report.filtered, report.dead_letters) == (2, 2, 0)
    assert rows(pipeline, "id", "event_type", "hour") == [(1, "click", TEN), (2, "click", TEN)]
    assert prove_offsets(pipeline.configuration, pipeline.topic).holds


@pytest.mark.parametrize("evolves", [False, True])
def test_a_record_that_is_filtered_out_deletes_its_row_if_configured(processed, evolves):
    lines = "where: \"event_type <> 'gone'\"\non-filtered: delete"
    pipeline = processed(lines, upserts=True, evolves=evolves)
    pipeline.produce(event(1), event(2), event(3), {"id": 4, "event_type": "gone"})
    pipeline.take_in()
    gone = {"id": 1, "event_type": "gone", "new": 1}
    pipeline.produce(gone, event(2, "view"), {"event_type": "gone"}, b"no json")
    pipeline.produce({"id": 3, "event_type": "gone"}, event(3, "again"))
    report = pipeline.take_in()
    assert (report.rows, report.deleted, report.filtered, report.dead_letters) == (2, 1, 1, 1)
    assert rows(pipeline, "id", "event_type") == [(2, "view"), (3, "again")]
    assert proof(pipeline).holds
    assert "new" not in pipeline.table.snapshot().schema.names
    configured(pipeline, "where: \"event_type <> 'gone'\"")
    pipeline.produce(event(2, "gone"))
    assert pipeline.take_in().filtered == 1
    assert rows(pipeline, "id", "event_type") == [(2, "view"), (3, "again")]
    assert proof(pipeline).holds


def test_a_changed_expression_must_have_the_type_of_the_column(processed):
    pipeline = processed('columns: {size: "CAST(length(event_type) AS BIGINT)"}')
    pipeline.produce(event(1))
    pipeline.take_in()
    configured(pipeline, 'columns: {size: "length(event_type)"}')
    pipeline.produce(event(2, "view"))
    pipeline.take_in()
    assert rows(pipeline, "size") == [(4,), (5,)]
    configured(pipeline, "columns: {size: event_type}")
    pipeline.produce(event(3))
    with pytest.raises(PipelineError, match=r"processing\.columns\.size: the type is string, but"):
        pipeline.take_in()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "columns: {hour: \"date_trunc('HOUR', event_tme)\"}",
            "columns.hour: .*'event_tme' doesn't exist.*'event_time'",
        ),
        ("where: \"evnt_type <> 'x'\"", "where: .*'evnt_type' doesn't exist"),
        ('drop: ["evnt_type"]', "'evnt_type' isn't a property"),
        ('where: "event_type"', "isn't a condition"),
        ('columns: {n: "upper("}', "processing.columns: n: "),
        ('columns: {n: "sum(id)"}', "processing.columns: n: .*sum"),
        ('columns: {n: "NULL"}', "always NULL"),
        ('columns: {n: "id + event_time"}', "columns.n: "),
        ('columns: {_kafka_offset: "1"}', "the pipeline uses this name"),
        ('columns: {n: "1", N: "2"}', "the same column name"),
        ('columns: {n: "_processed_at"}', "use _kafka_timestamp"),
        ('columns: {n: "id"}\ndrop: [N]', "remove N from drop"),
        ("columns: {n: 1}", "must be a string|valid string"),
        ("drop: [_kafka_offset]", "a column that the pipeline adds"),
    ],
)
def test_processing_that_cannot_work_is_refused_with_its_setting(processed, lines, message):
    pipeline = processed(lines)
    with pytest.raises(ConfigurationError, match=message) as caught:
        pipeline.take_in()
    assert "connector.topics.events.processing" in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "destination", "message"),
    [
        ("columns: {ID: \"upper('x')\"}", "", "ID is in key-columns|id is in key-columns"),
        ("drop: [id]", "", "id is in key-columns, but drop removes it"),
        ('columns: {"n m": "1"}', "", "'n m' has a space or one of"),
        ("drop: [event_type]", "        cluster-by: [event_type]\n", "remove it from drop"),
    ],
)
def test_keys_and_partitions_need_stored_fields(processed, lines, destination, message):
    pipeline = processed(lines, upserts=True, destination=destination)
    with pytest.raises(ConfigurationError, match=message):
        pipeline.take_in()


DEBEZIUM = """\
      decode: debezium
      processing:"""


@pytest.mark.parametrize("on_filtered", ["skip", "delete"])
def test_rows_in_debezium_envelopes_are_filtered_and_derived(processed, on_filtered):
    pipeline = processed(
        'columns: {kind: "upper(event_type)"}\nwhere: "event_type <> \'gone\'"\n'
        f"on-filtered: {on_filtered}",
        upserts=True,
    )
    text = pipeline.file.read_text()
    pipeline.file.write_text(text.replace("      processing:", DEBEZIUM))

    def change(op, before, after):
        return {"payload": {"op": op, "before": before, "after": after}}

    pipeline.produce(change("c", None, event(1)), change("c", None, event(2)))
    assert pipeline.take_in().rows == 2
    pipeline.produce(
        change("u", event(1), event(1, "gone", color="red")), change("d", event(2), None)
    )
    report = pipeline.take_in()
    deletes = on_filtered == "delete"
    assert (report.deleted, report.filtered, report.dead_letters) == (1 + deletes, not deletes, 0)
    assert rows(pipeline, "id", "kind") == ([] if deletes else [(1, "CLICK")])
    assert proof(pipeline).holds


def test_expressions_read_strings_lines_of_csv_and_flat_fields(processed):
    def taken(decode, lines, schema, *values):
        pipeline = processed(lines, schema=schema)
        text = pipeline.file.read_text()
        pipeline.file.write_text(text.replace("      processing:", f"{decode}      processing:"))
        pipeline.produce(*values)
        report = pipeline.take_in()
        return pipeline, (report.rows, report.filtered, report.dead_letters)

    numbers = 'columns: {number: "CAST(value AS INT)"}\ndrop: [value]\nwhere: "value <> \'x\'"'
    strings, counts = taken("      decode: string\n", numbers, None, b"1", b"x", b"y", b"2")
    assert counts == (2, 1, 1)
    assert rows(strings, "number") == [(1,), (2,)]
    assert "value" not in strings.table.snapshot().schema.names

    csv = 'columns: {twice: "2 * id"}\nwhere: "event_type <> \'view\'"\ndrop: [event_type]'
    names = {n: EVENTS["properties"][n] for n in ("id", "event_type")}
    lines, counts = taken(
        "      decode: csv\n", csv, {"properties": names}, b"1,click", b"nine,view", b"x,click"
    )
    assert counts == (1, 1, 1)
    assert rows(lines, "id", "twice") == [(1, 2)]

    flat = (
        'columns: {town: "lower(place_city)"}\nwhere: "place_city <> \'Bonn\'"\ndrop: [place_zip]'
    )
    flattened, counts = taken(
        "      flatten: _\n",
        flat,
        None,
        {"place": {"city": "Ulm", "zip": 1}},
        {"place": {"city": "Bonn", "zip": 2}},
    )
    assert counts == (1, 1, 0)
    assert rows(flattened, "town", "place_city") == [("ulm", "Ulm")]
    assert "place_zip" not in flattened.table.snapshot().schema.names


def test_a_field_with_the_name_of_kafkas_metadata_is_not_read(processed):
    pipeline = processed('columns: {no_key: "_kafka_key IS NULL", o: "_kafka_offset"}', schema=None)
    pipeline.produce({"id": 1, "_kafka_key": "x"})
    pipeline.take_in()
    assert rows(pipeline, "no_key", "o") == [(True, 0)]


def test_many_failing_records_are_all_refused(processed):
    pipeline = processed('columns: {n: "CAST(event_type AS INT)"}')
    pipeline.produce(*(event(n, "bad" if n % 3 else str(n)) for n in range(300)))
    report = pipeline.take_in()
    assert (report.rows, report.dead_letters) == (100, 200)
    assert rows(pipeline, "n") == sorted(((n,) for n in range(0, 300, 3)), key=str)


@pytest.mark.parametrize("policy", ["dead-letter", "freeze"])
def test_a_record_is_a_dead_letter_if_its_condition_needs_a_field_that_cannot_be_added(
    processed, policy
):
    def configure(lines):
        configured(pipeline, lines, schema=None)
        text = pipeline.file.read_text().replace(
            "      processing:", f"      schema-policy: {policy}\n      processing:"
        )
        pipeline.file.write_text(text.replace("          enable-schema-evolution: false\n", ""))

    pipeline = processed("max-retries: 1", schema=None)
    configure("where: \"kind = 'click' OR id < 10\"")
    pipeline.produce({"id": 1, "n": 1}, {"id": 50, "n": 1})
    assert (pipeline.take_in().rows, pipeline.take_in().rows) == (1, 0)
    click = {"id": 20, "n": 1, "kind": "click"}
    pipeline.produce(click, {"id": 30, "n": 1, "kind": None}, {"id": 40, "n": 2})
    report = pipeline.take_in()
    assert (report.rows, report.filtered, report.dead_letters) == (0, 2, 1)
    assert "'kind'" in reasons(pipeline)[0]
    assert proof(pipeline).holds
    result = replay_dead_letters(pipeline.configuration, pipeline.topic)
    assert (result.replayed, result.filtered, result.refused) == (0, 0, 1)
    configured(pipeline, "where: \"kind = 'click' OR id < 10\"", schema=None)
    pipeline.evolves = True
    configured(pipeline, "where: \"kind = 'click' OR id < 10\"", schema=None)
    assert replay_dead_letters(pipeline.configuration, pipeline.topic).replayed == 1
    assert rows(pipeline, "id", "kind") == [(1, None), (20, "click")]
    assert proof(pipeline).holds


def test_a_record_is_a_dead_letter_if_its_condition_needs_a_field_beyond_max_new_columns(processed):
    pipeline = processed("where: \"kind = 'click' OR id < 10\"", schema=None, evolves=True)
    text = pipeline.file.read_text()
    pipeline.file.write_text(
        text.replace("delta-config:\n", "delta-config:\n          max-new-columns: 2\n")
    )
    pipeline.produce({"id": 1, "n": 1})
    pipeline.take_in()
    pipeline.produce({"id": 3, "n": 1, "a": 1, "b": 2})
    pipeline.produce({"id": 20, "n": 1, "kind": "click"}, partition=1)
    report = pipeline.take_in()
    assert report.filtered == 0
    assert report.rows + report.dead_letters == 2
    assert proof(pipeline).holds


def test_expressions_read_fields_of_avro_with_the_types_of_their_schema(processed):
    fields = [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9}},
    ]
    schema = {"type": "record", "name": "R", "fields": fields}
    pipeline = processed(
        'columns: {hour: "hour(at)", price: "price * 2"}\nwhere: "price > 0"\ndrop: [at]',
        schema=schema,
    )
    text = pipeline.file.read_text().replace(
        "      processing:", "      decode: avro\n      processing:"
    )
    pipeline.file.write_text(text)
    at = TEN.replace(hour=7)
    for number in range(3):
        out = io.BytesIO()
        record = {"id": number, "at": at, "price": decimal.Decimal(number)}
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
        pipeline.produce(out.getvalue())
    report = pipeline.take_in()
    assert (report.rows, report.filtered, report.dead_letters) == (2, 1, 0)
    assert rows(pipeline, "id", "hour", "price") == [(1, 7, 2), (2, 7, 4)]
    pipeline.produce(out.getvalue())
    assert pipeline.take_in().rows == 1
    assert proof(pipeline).holds
