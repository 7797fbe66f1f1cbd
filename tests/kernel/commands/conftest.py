"""Tables on the disk, and rows marked as deleted in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.kernel import Engine, Operation, Snapshot, Table
from bayou.kernel.transaction.commit_table_actions import to_remove
from bayou.protocol.actions import DeletionVectorDescriptor
from support.vectors import write_vectors


@pytest.fixture
def engine() -> Engine:
    return ArrowEngine()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "a table")


@pytest.fixture
def snapshot(engine: Engine, path: str) -> Callable[[], Snapshot]:
    return lambda: Table.for_path(engine, path).latest_snapshot(engine)


@pytest.fixture
def written(path: str) -> Callable[..., None]:
    """Appends some batches, a file each."""

    def write(*parts: Sequence[Mapping[str, Any]], **options: Any) -> None:
        for i, part in enumerate(parts):
            bayou.write(path, pa.Table.from_pylist(list(part)), **(options if i == 0 else {}))

    return write


@pytest.fixture
def mark_deleted(engine: Engine, path: str) -> Callable[[Callable[[str], Sequence[int]]], None]:
    """Gives files new deletion vectors, of the positions that a function tells by their paths."""

    def mark(positions: Callable[[str], Sequence[int]]) -> None:
        found = Table.for_path(engine, path).latest_snapshot(engine)
        scan = found.scan_builder().with_whole_adds().build()
        actions: list[Any] = []
        with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
            for file in files:
                rows = positions(file.path)
                if not rows:
                    continue
                (vector,) = write_vectors(engine, path, rows)
                add = msgspec.structs.replace(
                    file.add,
                    data_change=True,
                    deletion_vector=msgspec.convert(vector, DeletionVectorDescriptor),
                )
                actions += [to_remove(file.add, 1), add]
        transaction = found.build_update_table_transaction("test/1", Operation.DELETE)
        transaction.build(engine).commit(engine, actions)

    return mark
