from __future__ import annotations

import pickle

import pytest

from bayou.engines import for_path, from_description
from bayou.engines.arrow import ArrowEngine
from bayou.engines.arrow.files import ArrowFiles
from bayou.engines.memory import MemoryEngine
from bayou.errors import ArgumentError, SerializationError
from bayou.kernel.engine import EngineDescription


@pytest.mark.parametrize(
    "path",
    ["/a", "a", "file:///a", "s3://b/a", "s3a://b/a", "gs://b/a", "abfss://c@a/b", "az://c/a"],
)
def test_disks_and_object_stores_are_the_arrow_engines(path: str) -> None:
    assert isinstance(for_path(path), ArrowEngine)


def test_memory_is_the_memory_engines_and_one_for_the_process() -> None:
    engine = for_path("memory://selection/a")
    assert isinstance(engine, MemoryEngine)
    engine.files.put("memory://selection/a", b"1")
    again = from_description(pickle.loads(pickle.dumps(engine.description())))
    assert again.files.status("memory://selection/a").size == 1


def test_a_description_builds_an_engine_with_the_same_options() -> None:
    options = {"AWS_SECRET_ACCESS_KEY": "the-secret"}
    engine = for_path("s3://b/a", options)
    description = pickle.loads(pickle.dumps(engine.description()))
    assert description.options == options
    assert from_description(description).description() == engine.description()


def test_no_repr_holds_a_secret() -> None:
    engine = for_path("s3://b/a", {"AWS_SECRET_ACCESS_KEY": "the-secret"})
    for thing in (engine, engine.description(), engine.files, engine.json, engine.parquet):
        assert "the-secret" not in repr(thing)


def test_an_unknown_kind_of_engine_is_an_error() -> None:
    with pytest.raises(SerializationError, match="quantum"):
        from_description(EngineDescription(kind="quantum"))


def test_an_engine_with_handlers_of_its_own_has_no_description() -> None:
    with pytest.raises(ArgumentError, match="worker"):
        ArrowEngine(files=ArrowFiles()).description()
