"""Random histories of tables with Iceberg metadata: both formats must be equal at each version.

The rows are read by pyiceberg, also with filters that let it skip files. `make nightly` runs 2,000
histories; `--hypothesis-seed` draws others.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from support.iceberg_histories import History, delta_rows_where, histories, run
from support.iceberg_tables import (
    assert_equal_formats,
    delta_rows,
    iceberg_rows,
    iceberg_table,
    sorted_rows,
)


@settings(max_examples=examples(200))
@given(history=histories(filters=3), data=st.data())
def test_random_histories_end_with_both_formats_equal(
    history: History, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table"
        run(path, history, data)
        assert_equal_formats(path)
        for condition in history.filters:
            expected = sorted_rows(delta_rows_where(path, condition))
            assert iceberg_rows(path, row_filter=condition) == expected, condition
        for snapshot in iceberg_table(path).metadata.snapshots:
            version = int(snapshot.summary["delta-version"])
            rows = iceberg_rows(path, snapshot_id=snapshot.snapshot_id)
            assert rows == delta_rows(path, version=version), version
