from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import bayou.testing
from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory import MemoryEngine
from bayou.engines.memory.engine import MemoryFiles
from bayou.kernel import closeable
from bayou.kernel.engine import FileStatus
from bayou.testing import EngineSuite


class OverwritingFiles(MemoryFiles):
    def put_if_absent(self, path: str, data: bytes) -> bool:
        self.put(path, data)
        return True


class UnorderedFiles(MemoryFiles):
    @closeable
    def list_from(self, path: str) -> Iterator[FileStatus]:
        yield from reversed(list(super().list_from(path)))


class LazyJson:
    def parse_json(self, texts: pa.Array, output_schema: pa.Schema) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [pa.nulls(len(texts), f.type) for f in output_schema], schema=output_schema
        )


@pytest.mark.parametrize(
    ("engine", "test"),
    [
        (
            ArrowEngine(files=OverwritingFiles()),
            EngineSuite.test_put_if_absent_keeps_the_file_that_is_there,
        ),
        (
            ArrowEngine(files=OverwritingFiles()),
            EngineSuite.test_of_many_threads_that_put_one_name_one_wins,
        ),
        (
            ArrowEngine(files=UnorderedFiles()),
            EngineSuite.test_listing_starts_at_the_name_and_is_in_order_of_bytes,
        ),
    ],
)
def test_an_engine_that_breaks_a_promise_fails(engine: Any, test: Callable[..., None]) -> None:
    with pytest.raises(AssertionError):
        test(EngineSuite(), engine, f"memory://{uuid.uuid4()}/place")


def test_a_handler_that_loses_values_fails() -> None:
    with pytest.raises(AssertionError):
        EngineSuite().test_each_text_is_a_row(ArrowEngine(json=LazyJson()))


def test_the_suites_pass_for_an_engine_that_keeps_its_promises() -> None:
    root = f"memory://{uuid.uuid4()}/place"
    EngineSuite().test_put_if_absent_keeps_the_file_that_is_there(MemoryEngine(), root)


def test_everything_public_is_there() -> None:
    assert bayou.testing.__all__ == ["EngineSuite", "FileCatalog"]
