"""The table decides: what happens to a pipeline whose table or copies change underneath."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import bayou
from bayou.ingest.inspection import plan_run, topic_status_reports
from bayou.spark.kafka import ProducedRecord

pytestmark = pytest.mark.spark


def records(count, start=0):
    return [json.dumps({"id": n}).encode() for n in range(start, start + count)]


def ids(pipeline):
    return sorted(row["id"] for row in pipeline.rows())


@pytest.fixture
def restored(pipeline):
    """Two commits, and the second one taken back by somebody."""
    pipeline.configure()
    for start in (0, 10):
        pipeline.broker.produce("events", records(10, start))
        pipeline.run()
    DeltaTable(str(pipeline.table)).restore(0)
    assert len(pipeline.rows()) == 10
    pipeline.broker.produce("events", records(10, 20))
    return pipeline


def test_a_table_restored_underneath_stops_the_topic_with_what_to_decide(restored):
    (summary,) = restored.run().finished
    assert "version 2" in summary.error.message
    assert "accept-restore: 2" in summary.error.message
    assert "RESTORE the table to version 1" in summary.error.message
    assert ids(restored) == list(range(10))


def test_a_restore_that_is_accepted_is_gone_on_from_and_asked_for_once(restored):
    restored.configure(**{"accept-restore": 2})
    assert restored.run().finished[0].error is None
    assert ids(restored) == [*range(10), *range(20, 30)]
    restored.configure()
    restored.broker.produce("events", records(5, 30))
    assert restored.run().finished[0].error is None


def test_a_restore_that_is_undone_and_accepted_loses_nothing(restored):
    DeltaTable(str(restored.table)).restore(1)
    assert "accept-restore: 3" in restored.run().finished[0].error.message
    restored.configure(**{"accept-restore": 3})
    assert restored.run().finished[0].error is None
    assert ids(restored) == list(range(30))


def test_a_table_that_lost_its_newest_commits_takes_their_records_again(pipeline):
    pipeline.configure()
    for start in (0, 10):
        pipeline.broker.produce("events", [*records(10, start), b"bad"])
        pipeline.run()
    (pipeline.table / "_delta_log" / f"{1:020}.json").unlink()
    pipeline.run()
    assert ids(pipeline) == list(range(20))
    assert len(pipeline.dead_letters()) == 2


@pytest.mark.parametrize(
    "what",
    [
        pytest.param("rolled back", marks=pytest.mark.slow),
        pytest.param("deleted", marks=pytest.mark.slow),
        "replaced",
        pytest.param("RESTORE", marks=pytest.mark.slow),
    ],
)
def test_a_table_that_changes_under_a_running_pipeline_stops_it(pipeline, what):
    pipeline.configure(processing={"flush-interval": 0.2})
    pipeline.broker.produce("events", records(10))
    running = pipeline.start()
    running.wait(lambda seen: len(seen.batches) == 1)
    pipeline.broker.produce("events", records(10, 10))
    running.wait(lambda seen: sum(b.rows for b in seen.batches) == 20)
    if what == "rolled back":
        for commit in sorted((pipeline.table / "_delta_log").glob("*.json"))[1:]:
            commit.unlink()
    elif what == "RESTORE":
        DeltaTable(str(pipeline.table)).restore(0)
    else:
        shutil.rmtree(pipeline.table)
    if what == "replaced":
        bayou.write(str(pipeline.table), pa.table({"id": [1]}))
    pipeline.broker.produce("events", records(10, 20))
    running.wait(lambda seen: seen.finished)
    (summary,) = running.stop().finished
    assert what in summary.error.message
    if what in ("rolled back", "deleted"):
        again = pipeline.run()
        assert again.finished[0].error is None
        assert ids(pipeline) == list(range(30))


@pytest.mark.slow
def test_two_copies_double_nothing_and_one_gives_way(pipeline):
    pipeline.configure(processing={"flush-interval": 0.2})
    pipeline.broker.produce("events", [*records(10), b"bad"])
    first = pipeline.start()
    first.wait(lambda seen: seen.batches)
    config = json.loads(pipeline.file.read_text())
    config["connector"]["topics"]["copy"] = config["connector"]["topics"].pop("events")
    pipeline.file.write_text(json.dumps(config))
    second = pipeline.start()
    second.wait(lambda seen: seen.started)
    count = 10
    for _ in range(50):
        pipeline.broker.produce("events", [*records(1, count), b"bad"])
        count += 1
        if first.recorder.finished or second.recorder.finished:
            break
    for copy in (first, second):
        copy.wait(lambda seen: first.recorder.finished or second.recorder.finished)
    errors = [s.error for c in (first.stop(), second.stop()) for s in c.finished if s.error]
    assert errors
    assert ["Run only one pipeline" in error.message for error in errors] == [True] * len(errors)
    pipeline.run()
    assert ids(pipeline) == list(range(count))
    letters = Counter((row["partition"], row["offset"]) for row in pipeline.dead_letters())
    assert set(letters.values()) == {1}
    assert len(letters) == count - 9


def test_a_table_that_would_forget_its_offsets_is_refused(pipeline):
    pipeline.configure()
    pipeline.broker.produce("events", [*records(3), b"bad"])
    pipeline.run()
    for path in (f"{pipeline.table}_dead_letters", str(pipeline.table)):
        table = DeltaTable(path)
        table.alter.set_table_properties(
            {"delta.setTransactionRetentionDuration": "interval 7 days"},
            raise_if_not_exists=False,
        )
        (summary,) = pipeline.run().finished
        assert "delta.setTransactionRetentionDuration" in summary.error.message
        assert path in summary.error.message


def test_latest_is_the_end_that_was_there_at_the_first_start(pipeline):
    pipeline.configure(**{"starting-offsets": "latest"})
    pipeline.broker.produce("events", records(10))
    assert pipeline.run().started[0].waiting == 0
    pipeline.broker.produce("events", records(10, 10))
    shutil.rmtree(pipeline.state)
    pipeline.run()
    assert ids(pipeline) == list(range(10, 20))


def test_latest_counts_for_partitions_that_had_no_record_in_the_first_batches(pipeline):
    pipeline.configure(**{"starting-offsets": "latest"})
    pipeline.broker.produce("events", records(40))
    assert pipeline.run().started[0].waiting == 0
    new = [ProducedRecord(value, partition=2) for value in records(3, 40)]
    pipeline.broker.produce("events", new)
    pipeline.run()
    (plan,) = plan_run(pipeline.configuration(), pipeline.configuration().topics)
    (standing,) = topic_status_reports(pipeline.configuration(), pipeline.configuration().topics)
    assert (pipeline.run().started[0].waiting, plan.records, standing.waiting) == (0, 0, 0)
    assert ids(pipeline) == [40, 41, 42]


def test_the_checkpoint_interval_of_an_existing_table_is_changed(pipeline):
    pipeline.configure()
    pipeline.broker.produce("events", records(1))
    pipeline.run()
    pipeline.configure(delta={"checkpoint-interval": 2})
    for n in (1, 2):
        pipeline.broker.produce("events", records(1, n))
        pipeline.run()
    table = DeltaTable(str(pipeline.table))
    assert table.metadata().configuration["delta.checkpointInterval"] == "2"
    assert [f.name[:20] for f in (pipeline.table / "_delta_log").glob("*.checkpoint*.parquet")] == [
        f"{2:020}"
    ]


def test_another_topic_of_a_configuration_goes_on(pipeline):
    pipeline.configure()
    config = json.loads(pipeline.file.read_text())
    config["connector"]["topics"]["nowhere"] = {
        "kafka-topic": "nowhere",
        "destination": {"table-path": "lake/nowhere"},
    }
    pipeline.file.write_text(json.dumps(config))
    pipeline.broker.produce("events", records(5))
    finished = {s.topic: s for s in pipeline.run().finished}
    assert "doesn't exist" in finished["nowhere"].error.message
    assert finished["events"].rows == 5
