"""The source of a merge."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bayou.errors import SchemaError
from bayou.kernel.commands.merge.source import MergeSource
from bayou.protocol.schema import STRING, VOID


def test_batches_become_one_in_deltas_types() -> None:
    schema = pa.schema(
        {"a": pa.dictionary(pa.int8(), pa.large_string()), "t": pa.timestamp("ms"), "n": pa.null()}
    )
    batch = pa.RecordBatch.from_pydict({"a": ["x", None], "t": [1, 2], "n": [None, None]}, schema)
    found = MergeSource.read(schema, [batch, batch])
    assert found.rows.num_rows == 4
    assert found.rows.schema.types == [pa.string(), pa.timestamp("us"), pa.null()]
    assert [f.data_type for f in found.schema][::2] == [STRING, VOID]


def test_a_source_without_rows_has_columns() -> None:
    found = MergeSource.read(pa.schema({"a": pa.int64()}), [])
    assert found.rows.num_rows == 0
    assert found.rows.schema.names == ["a"]


def test_a_type_that_delta_does_not_have_is_refused() -> None:
    with pytest.raises(SchemaError, match="time64"):
        MergeSource.read(pa.schema({"a": pa.time64("us")}), [])
