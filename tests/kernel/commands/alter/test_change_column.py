"""A column changed in several ways at once."""

import pyarrow as pa
import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import SchemaError
from bayou.kernel import Table
from bayou.kernel.commands.alter.change_column import change_column
from bayou.protocol.schema import LONG, StructField


def test_type_comment_and_place_go_in_one_commit(tmp_path):
    path = str(tmp_path / "t")
    rows = pa.table({"a": pa.array([1], pa.int32()), "b": pa.array([2], pa.int32())})
    bayou.write(path, rows, configuration={"delta.enableTypeWidening": "true"})
    engine = for_path(path, {})

    def change(**more):
        snapshot = Table.for_path(engine, path).latest_snapshot(engine)
        return change_column(engine, snapshot, ("B",), engine_info="test", **more).version

    to = StructField(name="whatever", data_type=LONG)
    assert change(to=to, comment="numbers", position="") == 1
    (last, _) = bayou.table(path).history()
    assert last["operation"] == "CHANGE COLUMN"
    assert last["operationParameters"]["position"] == "FIRST"
    schema = bayou.table(path).snapshot().kernel.schema
    assert [(f.name, str(f.data_type)) for f in schema] == [("b", "long"), ("a", "integer")]
    assert schema.fields[0].metadata["comment"] == "numbers"
    assert change(to=to) == 1
    with pytest.raises(SchemaError):
        change(position="nothing")
