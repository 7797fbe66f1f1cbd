from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from bayou.engines import for_path, from_description
from bayou.engines.arrow import ArrowEngine
from bayou.engines.arrow.files import ArrowFiles
from bayou.engines.memory import MemoryEngine
from bayou.errors import ArgumentError, SerializationError
from bayou.kernel import Engine, EngineDescription


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


def test_an_engine_with_handlers_of_its_own_needs_a_factory_to_have_a_description() -> None:
    with pytest.raises(ArgumentError, match="factory"):
        ArrowEngine(files=ArrowFiles()).description()


def test_a_description_comes_back_from_its_bytes() -> None:
    description = EngineDescription(kind="arrow", options={"a": "1"})
    assert EngineDescription.from_bytes(description.to_bytes()) == description


class OwnFiles(ArrowFiles):
    """Files of an engine that isn't Bayou's."""


def own_engine(options: Mapping[str, str]) -> Engine:
    return ArrowEngine(options, files=OwnFiles(options), factory=own_engine)


class OwnEngine(ArrowEngine):
    """An engine by inheritance, with a description of its own."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options, files=OwnFiles(options), factory=OwnEngine)


@pytest.mark.parametrize("factory", [own_engine, OwnEngine])
def test_an_engine_of_ones_own_is_built_again_by_its_factory(factory) -> None:
    engine = factory({"key": "the-secret"})
    description = EngineDescription.from_bytes(engine.description().to_bytes())
    assert "the-secret" not in repr(description)
    again = from_description(description)
    assert type(again) is type(engine)
    assert isinstance(again.files, OwnFiles)
    assert again.description() == description


def test_a_factory_that_workers_can_not_import_is_refused() -> None:
    def inner(options: Mapping[str, str]) -> Engine:
        return ArrowEngine(options)

    for factory in (inner, lambda _: ArrowEngine()):
        with pytest.raises(ArgumentError, match="import"):
            EngineDescription.of(factory, {})


def test_a_factory_that_is_not_there_is_named() -> None:
    for kind in ("no_such_module:engine", "bayou.engines:no_such_engine"):
        with pytest.raises(SerializationError, match=kind):
            from_description(EngineDescription(kind=kind))


FACTORY = """
from bayou.engines.arrow import ArrowEngine

def sealed(options):
    return ArrowEngine(options, factory=sealed)
"""


@pytest.mark.process
def test_another_process_builds_the_engine(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "own_engines.py").write_text(FACTORY)
    description = EngineDescription(kind="own_engines:sealed", options={"key": "k"})
    program = (
        "import sys; from bayou.engines import from_description;"
        "from bayou.kernel import EngineDescription;"
        "engine = from_description(EngineDescription.from_bytes(sys.stdin.buffer.read()));"
        "print(engine.description().kind, dict(engine.description().options))"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", ":".join(p for p in sys.path if p))
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=description.to_bytes(),
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"own_engines:sealed {'key': 'k'}\n"
