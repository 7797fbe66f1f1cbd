"""How many requests a table on an object store takes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import obstore
import pyarrow as pa
import pytest
from obstore.store import MemoryStore

from bayou.api.table import TableHandle
from bayou.engines.arrow import ArrowEngine
from bayou.engines.arrow.storage import object_io, object_store_files
from bayou.engines.arrow.storage.object_store_files import ObjectStoreFiles
from bayou.kernel import Operation, Table, write_data
from bayou.kernel.arrow.types import from_arrow_schema

PATH = "s3://bucket/table"


class CountedRequests:
    """The module `obstore`, with its calls counted by name."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        function = getattr(obstore, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            self.calls[name] += 1
            return function(*arguments, **options)

        return counted

    @property
    def gets(self) -> int:
        return self.calls["get"] + self.calls["get_range"] + self.calls["get_ranges"]


@pytest.fixture
def engine() -> ArrowEngine:
    """Twelve commits of a file each; a checkpoint of ten, two behind it."""
    engine = ArrowEngine(files=ObjectStoreFiles(stores={"s3://bucket": MemoryStore()}))
    table = Table.for_path(engine, PATH)
    for number in range(12):
        batch = pa.RecordBatch.from_pydict({"id": [number], "text": ["x"]})
        builder = table.create_transaction_builder(engine, "test", Operation.WRITE)
        if number == 0:
            builder = builder.with_schema(from_arrow_schema(batch.schema))
        transaction = builder.build(engine)
        adds = write_data(engine, transaction.transaction_state(engine), [batch])
        transaction.commit(engine, adds)
        if number == 9:
            table.checkpoint(engine)
    return engine


@pytest.fixture
def requests(engine: ArrowEngine, monkeypatch: pytest.MonkeyPatch) -> CountedRequests:
    counted = CountedRequests()
    monkeypatch.setattr(object_store_files, "obstore", counted)
    monkeypatch.setattr(object_io, "obstore", counted)
    return counted


def test_opening_a_table_with_a_checkpoint_is_one_list_and_few_gets(
    engine: ArrowEngine, requests: CountedRequests
) -> None:
    snapshot = Table.for_path(engine, PATH).latest_snapshot(engine)
    assert snapshot.version == 11
    assert requests.calls["list"] == 1
    assert requests.calls["head"] == 0
    assert requests.gets == 5  # the hint, two commits, the checkpoint's checksum and its commit


def test_planning_reads_a_small_checkpoint_once_and_a_file_is_one_get(
    engine: ArrowEngine, requests: CountedRequests
) -> None:
    handle = TableHandle(engine, Table.for_path(engine, PATH))
    snapshot = handle.snapshot()
    requests.calls.clear()
    assert snapshot.to_arrow(columns=["id"], filter="id = 3").num_rows == 1
    assert requests.gets == 2  # the checkpoint and the file
    requests.calls.clear()
    assert snapshot.to_arrow(columns=["id"], filter="id = 3").num_rows == 1
    assert requests.gets == 2
    assert set(requests.calls) <= {"get", "get_range"}


def test_a_version_in_the_past_is_one_list_too(
    engine: ArrowEngine, requests: CountedRequests
) -> None:
    assert Table.for_path(engine, PATH).snapshot_as_of_version(engine, 10).version == 10
    assert requests.calls["list"] == 1
    assert requests.gets <= 5
