"""Change data files: where they are, and what is in them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from bayou.engines.arrow import ArrowEngine
from bayou.kernel import TransactionState
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.data_writer.change_data_files import ChangeDataFiles

ROWS = pa.record_batch({"id": [1, 2, 3], "p": ["a b", None, "a b"]})


def written(tmp_path, *partitions: str, **configuration: str) -> ChangeDataFiles:
    state = TransactionState(
        table=str(tmp_path),
        schema=from_arrow_schema(ROWS.schema),
        partition_columns=partitions,
        configuration={f"delta.{k}": v for k, v in configuration.items()},
    )
    files = ChangeDataFiles(ArrowEngine(), state)
    files.add(ROWS, "delete")
    files.add(ROWS.slice(0, 0), "insert")
    files.add(ROWS.slice(0, 1).append_column("more", pa.array([1])), "update_preimage")
    files.finish()
    return files


def test_rows_say_what_happened_to_them(tmp_path):
    (action,) = written(tmp_path).actions
    folder, name = action.path.split("/")
    assert (folder, name[:10], action.partition_values) == ("_change_data", "cdc-00000-", {})
    assert (action.data_change, action.size) == (False, (tmp_path / action.path).stat().st_size)
    assert pq.read_table(tmp_path / action.path, partitioning=None).to_pydict() == {
        "id": [1, 2, 3, 1],
        "p": ["a b", None, "a b", "a b"],
        "_change_type": ["delete"] * 3 + ["update_preimage"],
    }


def test_partitions_have_folders_of_their_own(tmp_path):
    actions = {a.partition_values["p"]: a for a in written(tmp_path, "p").actions}
    assert set(actions) == {"a b", None}
    assert actions["a b"].path.startswith("_change_data/p=a%20b/cdc-")
    (file,) = (tmp_path / "_change_data" / "p=a b").iterdir()
    assert pq.read_table(file, partitioning=None)["id"].to_pylist() == [1, 3, 1]


def test_random_folders_lie_in_the_same_place(tmp_path):
    (action,) = written(tmp_path, randomizeFilePrefixes="true").actions
    assert action.path.startswith("_change_data/")
    assert action.path.count("/") == 2
