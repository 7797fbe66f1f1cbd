"""Files of deletion vectors: packing, names, and what reads them back."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from bayou.engines.memory import MemoryEngine
from bayou.kernel import TransactionState
from bayou.kernel.deletion_vectors import read
from bayou.kernel.deletion_vectors.write import DeletionVectorFiles
from bayou.protocol.deletion_vectors import stored_vector
from bayou.protocol.schema import StructType


def state(path: str, **configuration: str) -> TransactionState:
    return TransactionState(
        table=path,
        schema=StructType(),
        partition_columns=(),
        configuration={f"delta.{k}": v for k, v in configuration.items()},
    )


@given(
    st.lists(st.sets(st.integers(0, 200_000) | st.integers(0, (1 << 33)), min_size=1), max_size=6),
    st.integers(1, 2000),
)
def test_what_is_written_is_read_back(vectors, target):
    engine, path = MemoryEngine(), f"memory://{uuid.uuid4().hex}/t"
    files = DeletionVectorFiles(engine, state(path), target_bytes=target)
    descriptors = [files.add(BitMap64(rows)) for rows in vectors]
    files.finish()
    for rows, descriptor in zip(vectors, descriptors, strict=True):
        assert descriptor.cardinality == len(rows)
        assert set(read.load(engine, path, descriptor)) == rows
    used = {f"{path}/{stored_vector(d).path}" for d in descriptors}
    assert set(files.paths) == used


def test_a_file_takes_vectors_up_to_its_size(engine, table_path):
    files = DeletionVectorFiles(engine, state(table_path), target_bytes=100)
    found = [stored_vector(files.add(BitMap64([n]))) for n in range(4)]
    files.finish()
    files.finish()
    assert [(s.path == found[0].path, s.offset) for s in found] == [
        (True, 1),
        (True, 1 + found[0].length),
        (False, 1),
        (False, 1 + found[0].length),
    ]
    assert len(files.paths) == 2


def test_nothing_is_written_for_no_vector(engine, table_path):
    files = DeletionVectorFiles(engine, state(table_path))
    files.finish()
    assert files.paths == []


@pytest.mark.parametrize(
    ("configuration", "length"),
    [({}, 0), ({"randomizeFilePrefixes": "true", "randomPrefixLength": "3"}, 3)],
)
def test_folders_have_random_names_where_the_table_asks_for_it(
    engine, table_path, configuration, length
):
    files = DeletionVectorFiles(engine, state(table_path, **configuration))
    descriptor = files.add(BitMap64([5]))
    files.finish()
    assert len(descriptor.path_or_inline_dv) == 20 + length
    assert stored_vector(descriptor).path.count("/") == (1 if length else 0)
    assert list(read.load(engine, table_path, descriptor)) == [5]
