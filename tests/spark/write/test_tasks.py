import pyarrow as pa

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.commands.write import TableWrite, plan_write
from bayou.spark.write.tasks import decode_adds, delete_task_files, write_task

ENGINE = ArrowEngine()


def begun(path):
    schema = from_arrow_schema(pa.schema({"id": pa.int64(), "x": pa.string()}), table=path)
    return plan_write(ENGINE, TableWrite(table=path, schema=schema, engine_info="test"))


def test_small_batches_go_to_one_file_and_batches_of_other_shapes_go_along(tmp_path):
    path = str(tmp_path / "t")
    batches = [
        pa.record_batch({"id": [1], "x": ["a"]}),
        pa.record_batch({"id": [2], "x": ["b"]}),
        pa.record_batch({"x": pa.array(["c"]).dictionary_encode(), "id": [3]}),
        pa.record_batch({"id": pa.array([], pa.int64())}),
        pa.record_batch({"id": [4]}),
    ]
    (add,) = decode_adds([write_task(ENGINE.description(), begun(path).state, iter(batches))])
    assert add.stats is not None
    assert '"numRecords":4' in add.stats


def test_no_rows_give_no_actions(tmp_path):
    empty = pa.record_batch({"id": pa.array([], pa.int64())})
    state = begun(str(tmp_path)).state
    assert write_task(ENGINE.description(), state, []) == b""
    assert write_task(ENGINE.description(), state, [empty]) == b""


def test_what_tasks_wrote_is_deleted(tmp_path):
    path = str(tmp_path / "t")
    rows = pa.record_batch({"id": [1]})
    messages = [write_task(ENGINE.description(), begun(path).state, [rows]) for _ in range(2)]
    assert len(list(tmp_path.rglob("*.parquet"))) == 2
    delete_task_files(ENGINE.description(), path, messages)
    assert list(tmp_path.rglob("*.parquet")) == []
    assert not bayou.table(path).exists()
