"""The folder of the demo."""

from __future__ import annotations

import pytest

from bayou.errors import PrerequisiteError
from bayou.ingest.demo import demo


@pytest.fixture
def finished(tmp_path):
    """A folder with the files of an earlier demo."""
    folder = tmp_path / "demo"
    demo._clean(folder)
    demo._write_configuration(folder, "127.0.0.1:9092")
    for name in ("lake/flights", "lake/flights_dead_letters", ".bayou/flights", ".bayou/other"):
        (folder / name).mkdir(parents=True)
    return folder


def test_a_demo_replaces_only_the_tables_and_the_state_of_the_earlier_one(finished):
    (finished / "lake" / "events").mkdir()
    demo._clean(finished)
    names = {str(path.relative_to(finished)) for path in finished.rglob("*")}
    assert names == {
        *("flights.yaml", "flights-schema.json", "lake", "lake/events"),
        *(".bayou", ".bayou/other"),
    }


@pytest.mark.parametrize("name", ["lake/flights", "flights.yaml", "flights-schema.json"])
def test_a_demo_does_not_replace_the_files_of_others(tmp_path, name):
    file = tmp_path / name / "part.parquet" if name == "lake/flights" else tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("connector: {}")
    with pytest.raises(PrerequisiteError, match=rf"{name} isn't from an earlier demo"):
        demo._clean(tmp_path)
    assert file.read_text() == "connector: {}"


def test_a_demo_does_not_replace_its_configuration_after_a_change(finished):
    file = finished / "flights.yaml"
    file.write_text(file.read_text().replace("batch-size: 100000", "batch-size: 5"))
    with pytest.raises(PrerequisiteError, match="was changed after the demo wrote it"):
        demo._clean(finished)
    assert (finished / "lake" / "flights").exists()
    assert "batch-size: 5" in file.read_text()
