"""Tables whose clustering columns are fields of records that no schema file defines."""

from __future__ import annotations

import pytest

from bayou.errors import PipelineError


@pytest.fixture
def pipeline(small_pipeline):
    """Returns a function that configures the clustering columns, without a schema file."""

    def configure(columns):
        small_pipeline.evolves = True
        small_pipeline.write_file()
        text = small_pipeline.file.read_text().replace("      schema-file: schema.json\n", "")
        clustering = f"        cluster-by: [{columns}]\n        delta-config"
        small_pipeline.file.write_text(text.replace("        delta-config", clustering))
        return small_pipeline

    return configure


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("id", [("id",)]),
        ("place.city, id", [("place", "city"), ("id",)]),
        ("_kafka_offset", [("_kafka_offset",)]),
    ],
)
def test_a_table_is_clustered_by_fields_that_the_first_records_have(pipeline, columns, expected):
    topic = pipeline(columns)
    topic.produce({"id": 1}, {"id": 2, "place": {"city": "Ulm"}})
    assert topic.take_in().rows == 2
    assert list(topic.table.snapshot().kernel.clustering_columns) == expected


def test_a_table_is_not_created_without_its_clustering_columns(pipeline):
    topic = pipeline("place.city")
    topic.produce({"id": 1, "place": {"street": "B"}})
    with pytest.raises(PipelineError, match="first records lack a field that .* cluster-by"):
        topic.take_in()
    topic.produce({"id": 2, "place": {"city": "Ulm"}})
    assert topic.take_in().rows == 2
