"""Batches of a topic in several tables."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle

import bayou
from bayou.errors import PipelineError
from bayou.ingest import TopicTable
from bayou.spark.kafka.embedded_broker import ProducedRecord
from support.in_process_pipeline import InProcessContext
from support.routed_pipelines import (
    TEMPLATE,
    configured,
    ids,
    offsets,
    proof,
    reasons,
    routed_table,
    tables,
)


class CountingSession(InProcessContext):
    """Counts how often the records of a batch are read."""

    jobs = 0

    def parallelize(self, values, slices):
        self.jobs += 1
        return super().parallelize(values, slices)


class PicklingSession(InProcessContext):
    """Pickles tasks and their results, as Spark does."""

    def parallelize(self, values, slices):
        return PicklingSession(super().parallelize(values, slices).collect())

    def map(self, task):
        task = pickle.loads(cloudpickle.dumps(task))
        return PicklingSession(pickle.loads(pickle.dumps(task(v))) for v in self._values)


EXAMPLE = Path(__file__).parents[3] / "examples" / "local" / "routes.yaml"


def test_the_example_of_the_guide_routes_its_events(small_pipeline):
    lines = EXAMPLE.read_text().split("      destination:\n")[1]
    head = small_pipeline.file.read_text().split("      schema-file")[0]
    small_pipeline.file.write_text(f"{head}      destination:\n{lines}")
    kinds = ["click", "purchase", "refund", "Click", None]
    small_pipeline.produce(*({"id": n, "event_type": kind} for n, kind in enumerate(kinds)))
    assert small_pipeline.take_in().rows == 5
    assert tables(small_pipeline) == [
        "purchases",
        "user_events",
        "user_events_click",
        "user_events_click_95ba4ed9",
    ]
    assert ids(small_pipeline, "purchases") == [1, 2]
    assert ids(small_pipeline, "user_events") == [4]
    guide = (EXAMPLE.parents[2] / "docs" / "guide" / "routing.md").read_text()
    for line in lines.splitlines():
        assert line.strip() in guide or line.strip().startswith("#"), line


def test_tasks_and_their_results_can_be_sent_to_executors(routed):
    pipeline = routed(more="      processing: {where: id > 0}\n")
    pipeline.produce({"id": 1, "kind": "a"}, {"id": 2, "kind": "b", "x": [1]}, {"id": 0}, b"{")
    report = pipeline.take_in(session=PicklingSession())
    assert (report.rows, report.dead_letters, report.filtered) == (2, 1, 1)
    assert tables(pipeline) == ["events", "events_a", "events_b", "events_dead_letters"]


def versions(pipeline):
    return {name: routed_table(pipeline, name).snapshot().version for name in tables(pipeline)}


def test_each_value_has_its_table_with_its_own_columns(routed):
    pipeline = routed()
    pipeline.produce({"id": 1, "kind": "click", "x": 5}, {"id": 2, "kind": "view", "page": "/a"})
    pipeline.produce({"id": 3, "kind": "click", "x": 6}, {"id": 4}, partition=1)
    report = pipeline.take_in()
    assert (report.rows, report.dead_letters) == (4, 0)
    assert {(t.table, t.rows, t.created) for t in report.tables} == {
        ("events_click", 2, True),
        ("events_view", 1, True),
    }
    assert tables(pipeline) == ["events", "events_click", "events_view"]
    assert (ids(pipeline, "events_click"), ids(pipeline, "events_view")) == ([1, 3], [2])
    assert ids(pipeline) == [4]
    assert "x" not in routed_table(pipeline, "events_view").snapshot().schema.names
    pipeline.produce({"id": 5, "kind": "view", "page": "/b"}, {"id": 6, "kind": "buy"})
    assert pipeline.take_in().rows == 2
    assert ids(pipeline, "events_view") == [2, 5]
    assert set(offsets(pipeline).values()) == {1}
    assert proof(pipeline).holds


def test_a_batch_commits_only_to_tables_with_rows_and_to_the_default_table(routed):
    pipeline = routed()
    pipeline.produce({"id": 1, "kind": "a"}, {"id": 2, "kind": "b"})
    pipeline.take_in()
    before = versions(pipeline)
    session = CountingSession()
    for number in range(3):
        pipeline.produce({"id": 3 + number, "kind": "a"})
        pipeline.take_in(session=session)
    after = versions(pipeline)
    assert {n: after[n] - before[n] for n in after} == {"events": 3, "events_a": 3, "events_b": 0}
    assert session.jobs == 3  # a known value needs no second reading


def test_values_become_names_without_collisions(routed):
    pipeline = routed()
    kinds = ["a/b", "a b", "A", "a", "", "..", "é", "dead_letters", "x" * 300, "a_b_c14cddc0"]
    pipeline.produce(*({"id": n, "kind": kind} for n, kind in enumerate(kinds)))
    pipeline.take_in()
    names = [name for name in tables(pipeline) if name != "events"]
    assert len(names) == len(kinds)
    kept = {n: routed_table(pipeline, n).to_arrow()["kind"].to_pylist() for n in names}
    assert sorted(kept.values()) == sorted([kind] for kind in kinds)
    assert not (pipeline.folder / "lake" / "events_dead_letters").exists()


def test_a_value_beyond_max_tables_is_a_dead_letter_and_the_limit_outlives_a_restart(routed):
    pipeline = routed(TEMPLATE + "max-tables: 2")
    kinds = ["a", "a", "b", "b", "c"]
    pipeline.produce(*({"id": n, "kind": kind} for n, kind in enumerate(kinds)))
    assert pipeline.take_in().dead_letters == 1
    pipeline.produce({"id": 5, "kind": "d"}, {"id": 6, "kind": "a"})
    assert pipeline.take_in().dead_letters == 1
    assert tables(pipeline) == ["events", "events_a", "events_b", "events_dead_letters"]
    assert reasons(pipeline) == [
        "destination.route-by: the value 'c' has no table, because max-tables (2) is reached",
        "destination.route-by: the value 'd' has no table, because max-tables (2) is reached",
    ]
    assert proof(pipeline).holds


def test_a_value_whose_records_are_all_refused_takes_no_table(routed):
    pipeline = routed(TEMPLATE + "max-tables: 1", more='      masks: {id: "hash"}\n')
    configured(
        pipeline,
        TEMPLATE + "max-tables: 1",
        more='      processing: {columns: {n: "CAST(text AS INT)"}}\n',
    )
    pipeline.produce({"id": 1, "kind": "bad", "text": "x"}, {"id": 2, "text": "5"})
    assert pipeline.take_in().dead_letters == 1
    pipeline.produce({"id": 3, "kind": "good", "text": "7"})
    assert pipeline.take_in().rows == 1
    assert tables(pipeline) == ["events", "events_dead_letters", "events_good"]


def test_listed_values_have_their_tables_and_others_the_default_table(routed):
    pipeline = routed("expression: kind\ntables: {a: lake/as, A: lake/as, b: lake/bs}")
    pipeline.produce(*({"id": n, "kind": kind} for n, kind in enumerate("aAbcd")), {"id": 5})
    pipeline.take_in()
    assert tables(pipeline) == ["as", "bs", "events"]
    assert (ids(pipeline, "as"), ids(pipeline, "bs"), ids(pipeline)) == ([0, 1], [2], [3, 4, 5])
    configured(
        pipeline,
        "expression: kind\ntables: {a: lake/as}\non-unmatched: dead-letter\non-null: dead-letter",
    )
    pipeline.produce({"id": 6, "kind": "b"}, {"id": 7}, {"id": 8, "kind": "a"})
    pipeline.take_in()
    assert reasons(pipeline) == [
        "destination.route-by: the value 'b' has no table, and on-unmatched is dead-letter",
        "destination.route-by: the value is NULL, and on-null is dead-letter",
    ]
    assert ids(pipeline, "as") == [0, 1, 8]
    assert proof(pipeline).holds


def test_records_that_are_filtered_out_create_no_table(routed):
    pipeline = routed(
        more="      processing: {where: \"kind <> 'heartbeat'\", drop: [kind]}\n",
    )
    pipeline.produce({"id": 1, "kind": "heartbeat"}, {"id": 2, "kind": "click"}, {"id": 3})
    report = pipeline.take_in()
    assert (report.rows, report.filtered) == (1, 2)
    assert tables(pipeline) == ["events", "events_click"]
    assert "kind" not in routed_table(pipeline, "events_click").snapshot().schema.names
    found = proof(pipeline)
    assert found.holds
    assert sum(p.filtered for p in found.partitions) == 2


def test_a_derived_column_can_be_the_route_and_a_failing_one_is_a_dead_letter(routed):
    pipeline = routed(
        'expression: "size"\ntable-path: "lake/events_{value}"',
        more='      processing: {columns: {size: "CAST(text AS INT) div 10"}}\n',
    )
    pipeline.produce({"id": 1, "text": "12"}, {"id": 2, "text": "27"}, {"id": 3, "text": "x"})
    pipeline.take_in()
    assert tables(pipeline) == ["events", "events_1", "events_2", "events_dead_letters"]
    assert routed_table(pipeline, "events_2").to_arrow()["size"].to_pylist() == [2]
    assert reasons(pipeline)[0].startswith("destination.route-by: ")


def test_a_header_can_be_the_route_and_headers_are_stored_in_each_table(routed):
    pipeline = routed(
        'expression: "CAST(_kafka_headers[0].value AS STRING)"\n'
        'table-path: "lake/events_{value}"\non-null: dead-letter',
        more="      kafka-columns: [headers]\n",
    )
    records = [
        ProducedRecord(b'{"id": 1}', partition=0, headers=[("tenant", b"acme")]),
        ProducedRecord(b'{"id": 2}', partition=0),
        ProducedRecord(None, partition=0, headers=[("tenant", b"acme")]),
    ]
    pipeline.broker.produce(pipeline.kafka_topic, records)
    report = pipeline.take_in()
    assert (report.rows, report.dead_letters) == (1, 2)
    (row,) = routed_table(pipeline, "events_acme").to_arrow().to_pylist()
    assert row["_kafka_headers"] == [{"key": "tenant", "value": b"acme"}]
    letters = pipeline.dead_letters.to_arrow().sort_by("offset").to_pylist()
    assert [letter["headers"] is None for letter in letters] == [True, False]


def test_kafka_columns_can_be_the_route(routed):
    pipeline = routed("expression: _kafka_partition\ntable-path: 'lake/events_{value}'")
    pipeline.produce({"id": 1})
    pipeline.produce({"id": 2}, partition=1)
    pipeline.take_in()
    assert tables(pipeline) == ["events", "events_0", "events_1"]


def test_a_mask_applies_before_the_route(routed):
    pipeline = routed(TEMPLATE, more="      masks: {kind: 'truncate:2'}\n")
    pipeline.produce({"id": 1, "kind": "abc"}, {"id": 2, "kind": "abd"})
    pipeline.take_in()
    assert tables(pipeline) == ["events", "events_ab"]


def test_partition_columns_and_event_time_have_one_type_in_all_tables(routed):
    pipeline = routed(
        TEMPLATE,
        destination="partition-columns: [country, day]",
        more="      event-time: at\n      timestamp-formats: {at: iso}\n",
    )
    at = "2026-01-05T10:00:00Z"
    pipeline.produce({"id": 1, "kind": "a", "country": "de", "at": at})
    pipeline.take_in()
    pipeline.produce({"id": 2, "kind": "b"}, {"id": 3, "kind": "c", "country": 5, "at": at})
    report = pipeline.take_in()
    assert (report.rows, report.dead_letters) == (1, 1)
    (row,) = routed_table(pipeline, "events_b").to_arrow().to_pylist()
    assert row["country"] is None
    assert tables(pipeline) == ["events", "events_a", "events_b", "events_dead_letters"]
    assert routed_table(pipeline, "events_b").snapshot().partition_columns == ("country", "day")


@pytest.mark.parametrize("policy", ["freeze", "dead-letter"])
def test_the_schema_policy_applies_to_each_table(routed, policy):
    pipeline = routed(evolves=False, more=f"      schema-policy: {policy}\n")
    pipeline.produce({"id": 1, "kind": "a", "x": 1}, {"id": 2, "kind": "b", "y": 2})
    assert pipeline.take_in().rows == 2
    pipeline.produce({"id": 3, "kind": "a", "y": 2}, {"id": 4, "kind": "b", "y": 3})
    report = pipeline.take_in()
    assert (report.rows, report.dead_letters) == ((2, 0) if policy == "freeze" else (1, 1))
    assert "y" not in routed_table(pipeline, "events_a").snapshot().schema.names
    assert ids(pipeline, "events_b") == [2, 4]


def test_a_schema_file_defines_the_columns_of_all_tables(routed):
    schema = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "kind": {"type": "string"}},
        "required": ["id"],
    }
    pipeline = routed(schema=schema)
    pipeline.produce({"id": 1, "kind": "a"}, {"kind": "a"}, {"id": "x", "kind": "b"})
    report = pipeline.take_in()
    assert (report.rows, report.dead_letters) == (1, 2)
    assert tables(pipeline) == ["events", "events_a", "events_dead_letters"]


def test_records_without_a_value_are_dead_letters(routed):
    pipeline = routed()
    pipeline.produce({"id": 1, "kind": "a"}, b"", b"null", b"[]", b"{")
    report = pipeline.take_in()
    assert (report.rows, report.dead_letters) == (1, 4)
    assert proof(pipeline).holds


def test_max_batch_bytes_applies_to_the_records_of_all_tables(routed):
    pipeline = routed(more="      processing: {max-batch-bytes: 2kb}\n")
    pipeline.produce(*({"id": n, "kind": "ab"[n % 2], "x": "y" * 200} for n in range(40)))
    report = pipeline.take_in()
    assert 0 < report.rows < 40
    assert report.record_bytes <= 2048
    assert proof(pipeline).holds


def test_column_mapping_and_new_columns_agree(routed):
    pipeline = routed(TEMPLATE)
    text = pipeline.file.read_text().replace(
        "        delta-config:\n",
        "        delta-config:\n          table-properties: {delta.columnMapping.mode: name}\n",
    )
    pipeline.file.write_text(text)
    pipeline.produce({"id": 1}, {"id": 2, "kind": "a", "x": 1})
    pipeline.take_in()
    pipeline.produce({"id": 3, "z": 5}, {"id": 4, "kind": "a", "y": 1}, {"id": 5, "kind": "new"})
    pipeline.take_in()
    rows = routed_table(pipeline, "events").to_arrow().sort_by("id").to_pylist()
    assert [(r["id"], r["z"]) for r in rows] == [(1, None), (3, 5)]
    rows = routed_table(pipeline, "events_a").to_arrow().sort_by("id").to_pylist()
    assert [(r["id"], r["x"], r["y"]) for r in rows] == [(2, 1, None), (4, None, 1)]


def test_a_deleted_or_replaced_table_stops_the_topic_and_the_proof(routed):
    pipeline = routed()
    pipeline.produce({"id": 1, "kind": "a"}, {"id": 2, "kind": "b"})
    pipeline.take_in()
    lake = pipeline.folder / "lake"
    (lake / "events_a").rename(lake / "away")
    pipeline.produce({"id": 3, "kind": "b"})
    for act in (pipeline.take_in, lambda: proof(pipeline)):
        with pytest.raises(PipelineError, match="events_a was deleted or moved"):
            act()
    shutil.copytree(lake / "events_b", lake / "events_a")
    for act in (pipeline.take_in, lambda: proof(pipeline)):
        with pytest.raises(PipelineError, match="events_a was replaced by another table"):
            act()
    shutil.rmtree(lake / "events_a")
    (lake / "away").rename(lake / "events_a")
    pipeline.take_in()
    assert proof(pipeline).holds


def test_a_table_that_was_rolled_back_or_restored_is_noticed(routed):
    pipeline = routed()
    for number in range(2):
        pipeline.produce({"id": number, "kind": "a"})
        pipeline.take_in()
    log = pipeline.folder / "lake" / "events_a" / "_delta_log"
    last = log / f"{1:020}.json"
    text = last.read_bytes()
    last.unlink()
    for other in log.glob(f"{1:020}.crc"):
        other.unlink()
    with pytest.raises(PipelineError, match="was rolled back from version 1 to 0"):
        pipeline.take_in()
    last.write_bytes(text)
    routed_table(pipeline, "events_a").restore(0)
    pipeline.produce({"id": 2, "kind": "a"})
    setting = r"destination\.route-by\.accept-restore: {events_a: 2}"
    with pytest.raises(PipelineError, match=setting):
        pipeline.take_in()
    configured(pipeline, TEMPLATE + "accept-restore: {events_a: 2}")
    pipeline.take_in()
    assert ids(pipeline, "events_a") == [0, 2]


def test_an_idle_table_records_that_it_was_checked(routed):
    pipeline = routed()
    pipeline.produce({"id": 0, "kind": "a"}, {"id": 1})
    pipeline.take_in()
    table = routed_table(pipeline, "events_a")
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 seconds"})
    pipeline.take_in()
    identifier = f"restore-check/{pipeline.kafka_topic}"
    assert table.snapshot().transactions[identifier] == 1
    assert identifier not in pipeline.table.snapshot().transactions
    pipeline.produce({"id": 2, "kind": "a"})
    pipeline.take_in()
    assert ids(pipeline, "events_a") == [0, 2]


def test_an_accepted_restore_and_a_new_table_are_recorded_in_one_batch(routed):
    pipeline = routed()
    for number in range(2):
        pipeline.produce({"id": number})
        pipeline.take_in()
    version = pipeline.table.version()
    pipeline.table.restore(version - 1)
    pipeline.produce({"id": 2, "kind": "new"}, {"id": 3})
    with pytest.raises(PipelineError, match=f"accept-restore: {version + 1}"):
        pipeline.take_in()
    text = pipeline.file.read_text()
    accepted = f"      accept-restore: {version + 1}\n      kafka-topic:"
    pipeline.file.write_text(text.replace("      kafka-topic:", accepted))
    assert pipeline.take_in().rows == 2
    pipeline.file.write_text(text)  # the topic has recorded that it accepts the RESTORE
    pipeline.take_in()
    assert (ids(pipeline), ids(pipeline, "events_new")) == ([0, 3], [2])


def test_tables_that_are_moved_together_are_found(routed):
    pipeline = routed()
    pipeline.produce({"id": 1, "kind": "a"})
    pipeline.take_in()
    lake = pipeline.folder / "lake"
    lake.rename(pipeline.folder / "moved")
    pipeline.file.write_text(pipeline.file.read_text().replace("lake/", "moved/"))
    pipeline.produce({"id": 2, "kind": "a"})
    assert pipeline.take_in().rows == 1
    assert not lake.exists()


def test_rows_that_a_table_already_has_are_not_added_if_the_default_table_is_lost(routed):
    pipeline = routed()
    pipeline.produce({"id": 1, "kind": "a"}, {"id": 2, "kind": "b"}, {"id": 3})
    pipeline.take_in()
    lake = pipeline.folder / "lake"
    (lake / "events").rename(pipeline.folder / "lost")
    pipeline.produce({"id": 4, "kind": "a"})
    assert pipeline.take_in().rows == 2
    assert (ids(pipeline, "events_a"), ids(pipeline)) == ([1, 4], [3])
    assert proof(pipeline).holds


def test_a_listed_table_of_another_writer_is_refused(routed):
    pipeline = routed("expression: kind\ntables: {a: lake/events_a}")
    bayou.write(str(pipeline.folder / "lake" / "events_a"), pa.table({"x": [1]}))
    pipeline.produce({"id": 1, "kind": "a"})
    with pytest.raises(PipelineError, match="'_kafka_topic', so the table wasn't created by"):
        pipeline.take_in()


def test_two_pipelines_conflict_in_a_routed_table(routed):
    pipeline = routed()
    pipeline.produce({"id": 1, "kind": "a"})
    pipeline.take_in()
    pipeline.produce({"id": 2, "kind": "a"})

    class Rival(InProcessContext):
        def parallelize(self, values, slices):
            if pipeline.rival:
                pipeline.rival = False
                pipeline.take_in()
            return super().parallelize(values, slices)

    pipeline.rival = True
    with pytest.raises(PipelineError, match="Run only one pipeline"):
        pipeline.take_in(session=Rival())
    assert ids(pipeline, "events_a") == [1, 2]
    assert proof(pipeline).holds


def test_a_program_cannot_write_to_a_routed_topic(routed):
    pipeline = routed()
    with pytest.raises(PipelineError, match="only the pipeline can write the tables of a topic"):
        TopicTable(pipeline.configuration, "events").write([{"id": 1}])


def test_the_default_table_keeps_the_registry_through_checkpoints(routed):
    pipeline = routed(TEMPLATE + "max-tables: 1")
    text = pipeline.file.read_text().replace(
        "        delta-config:\n", "        delta-config:\n          checkpoint-interval: 2\n"
    )
    pipeline.file.write_text(text)
    for number in range(6):
        pipeline.produce({"id": number, "kind": "a"})
        pipeline.take_in()
    transactions = pipeline.table.snapshot().transactions
    assert any(a.endswith("/route/events_a/registered") for a in transactions)
    pipeline.produce({"id": 7, "kind": "b"})
    assert pipeline.take_in().dead_letters == 1


def test_a_value_with_the_name_of_a_folder_of_others_gets_no_table(routed):
    """VACUUM of a table there would delete the files, and the table of others isn't ours."""
    pipeline = routed('expression: kind\ntable-path: "lake/{value}"')
    lake = pipeline.folder / "lake"
    (lake / "raw" / "2024").mkdir(parents=True)
    (lake / "raw" / "2024" / "part-00000-of-others.parquet").write_text("x")
    bayou.write(str(lake / "copies" / "day" / "orders"), pa.table({"id": [1]}))
    bayou.write(str(lake / "orders"), pa.table({"id": [1]}))
    kinds = ["raw", "copies", "orders", "click", "raw"]
    pipeline.produce(*({"id": n, "kind": kind} for n, kind in enumerate(kinds)))
    report = pipeline.take_in()
    assert (report.rows, report.dead_letters) == (1, 4)
    assert ids(pipeline, "click") == [3]
    assert not (lake / "raw" / "_delta_log").exists()
    assert (
        sum("isn't a Delta table, but contains files" in reason for reason in reasons(pipeline))
        == 3
    )
    assert any("orders has no column '_kafka_topic'" in reason for reason in reasons(pipeline))
    assert proof(pipeline).holds
    pipeline.produce({"id": 5, "kind": "raw"}, {"id": 6, "kind": "click"})
    assert pipeline.take_in().dead_letters == 1


def test_a_value_with_the_name_of_another_pipelines_table_gets_no_table(routed, new_pipeline):
    pipeline = routed('expression: kind\ntable-path: "lake/{value}"')
    other = new_pipeline()
    other.write_file()
    other.produce({"id": 1})
    other.take_in()
    shutil.copytree(other.folder / "lake" / "events", pipeline.folder / "lake" / "orders")
    pipeline.produce({"id": 2, "kind": "orders"}, {"id": 3, "kind": "click"})
    report = pipeline.take_in()
    assert (report.rows, report.dead_letters) == (1, 1)
    assert (ids(pipeline, "orders"), ids(pipeline, "click")) == ([1], [3])
    assert "orders is the table of another topic" in reasons(pipeline)[0]
    assert proof(pipeline).holds


def test_files_of_an_interrupted_batch_are_no_files_of_others(routed):
    pipeline = routed()
    pipeline.produce({"id": 1, "kind": "click"})
    pipeline.take_in()
    for name in ("events", "events_click"):
        shutil.rmtree(pipeline.folder / "lake" / name / "_delta_log")
    assert pipeline.take_in().rows == 1
    assert ids(pipeline, "events_click") == [1]


@pytest.mark.parametrize(
    "more",
    [
        "      masks: {name: hash}\n",
        "      masks: {name: 'truncate:3'}\n",
        "      processing: {columns: {upper_name: upper(name)}}\n",
    ],
)
def test_the_first_record_of_a_value_does_not_stop_the_topic(routed, more):
    """Its table infers its columns, but a mask or an expression doesn't fit the record's type."""
    pipeline = routed(more=more)
    pipeline.produce({"id": 1, "kind": "a", "name": "one"})
    pipeline.take_in()
    pipeline.produce(
        {"id": 2, "kind": "b", "name": {"x": 1}},
        {"id": 3, "kind": "c", "name": [1]},
        {"id": 4, "kind": "a", "name": "four"},
    )
    report = pipeline.take_in()
    assert (report.rows, report.dead_letters) == (1, 2)
    pipeline.produce({"id": 5, "kind": "b", "name": "five"})
    assert pipeline.take_in().rows == 1
    assert ids(pipeline, "events_b") == [5]
    assert proof(pipeline).holds


@pytest.mark.parametrize(
    ("settings", "expression", "values"),
    [
        ("decode: string", "substring_index(value, ':', 1)", [b"a:1", b"b:2"]),
        (
            'flatten: "_"',
            "place_kind",
            [b'{"place": {"kind": "a"}}', b'{"place": {"kind": "b", "x": 1}}'],
        ),
        ("", "place.kind", [b'{"place": {"kind": "a"}}', b'{"place": {"kind": "b", "x": 1}}']),
        ("timestamp-formats: {at: epoch-s}", "IF(year(at) = 1970, 'a', 'b')", [b'{"at": 5}']),
        ("", "IF(n > 5 AND ok, 'a', NULL)", [b'{"n": 6, "ok": true}']),
    ],
)
def test_each_format_can_be_routed(routed, settings, expression, values):
    more = f"      {settings}\n" if settings else ""
    pipeline = routed(f'expression: "{expression}"\ntable-path: "lake/e_{{value}}"', more=more)
    pipeline.produce(*values)
    assert pipeline.take_in().rows == len(values)
    assert tables(pipeline) == [*("e_a", "e_b")[: len(values)], "events"]
    assert proof(pipeline).holds


def test_a_field_that_only_a_derived_column_reads_becomes_a_column_of_its_table(routed):
    pipeline = routed(
        'expression: meta.kind\ntable-path: "lake/events_{value}"',
        more='      processing: {columns: {total: "meta.qty * 2"}}\n',
    )
    pipeline.produce({"id": 1, "meta": {"kind": "a"}})
    pipeline.take_in()
    pipeline.produce({"id": 2, "meta": {"kind": "a", "qty": 3}})
    report = pipeline.take_in()
    assert (report.rows, report.dead_letters) == (1, 0)
    found = routed_table(pipeline, "events_a").to_arrow(columns=["id", "total"]).to_pylist()
    assert {row["id"]: row["total"] for row in found} == {1: None, 2: 6}
