"""The first batches of an upsert without a schema file: its columns aren't known yet."""

from __future__ import annotations

import pytest

import bayou
from bayou.errors import PipelineError


@pytest.fixture
def inferred(new_pipeline):
    """Return a function that creates an upsert whose columns are inferred."""

    def make(destination=""):
        pipeline = new_pipeline(upserts=True)
        text = pipeline.file.read_text().replace("      schema-file: schema.json\n", "")
        text = text.replace(
            "        key-columns: [id]\n", f"        key-columns: [id]\n{destination}"
        )
        pipeline.file.write_text(text)
        return pipeline

    return make


def reasons(pipeline):
    return pipeline.dead_letters.to_arrow()["reason"].to_pylist()


def test_an_empty_object_has_no_key(inferred):
    pipeline = inferred()
    pipeline.produce(b"{}")
    assert (pipeline.take_in().rows, reasons(pipeline)) == (0, ["no value in the key (id)"])
    pipeline.produce({"id": 1}, b"{}")
    pipeline.take_in()
    assert pipeline.table.to_arrow()["id"].to_pylist() == [1]
    assert reasons(pipeline) == ["no value in the key (id)"] * 2


def test_without_the_partition_column_the_table_is_not_created(inferred):
    pipeline = inferred("        partition-columns: [kind]\n")
    pipeline.produce({"id": 1})
    with pytest.raises(PipelineError, match="the first records lack a field that partition-col"):
        pipeline.take_in()
    assert not bayou.exists(pipeline.path)


def test_dead_letters_before_the_partition_column_is_known_stop_nothing(inferred):
    pipeline = inferred("        partition-columns: [kind]\n")
    pipeline.produce(b"no json", b'{"id": null}')
    assert pipeline.take_in().dead_letters == 2
    pipeline.produce({"id": 1, "kind": "a"})
    pipeline.take_in()
    assert pipeline.table.to_arrow()["kind"].to_pylist() == ["a"]


@pytest.mark.parametrize("row_first", [True, False])
def test_a_delete_in_the_first_batch_removes_an_earlier_row(inferred, row_first):
    pipeline = inferred()
    row, tombstone = ({"id": 1},), (...,)
    pipeline.produce(*(row + tombstone if row_first else tombstone + row), keys=[b'{"id": 1}'] * 2)
    pipeline.take_in()
    assert pipeline.table.to_arrow().num_rows == (0 if row_first else 1)
    assert not bayou.exists(pipeline.dead_letters.table_uri)


def test_a_delete_before_the_first_row_is_a_dead_letter(inferred):
    pipeline = inferred()
    pipeline.produce(..., keys=[b'{"id": 1}'])
    pipeline.take_in()
    (reason,) = reasons(pipeline)
    assert "the types of the key columns aren't known" in reason
    pipeline.produce({"id": 1})
    pipeline.take_in()
    assert pipeline.table.to_arrow()["id"].to_pylist() == [1]
