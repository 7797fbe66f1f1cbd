"""Properties, clustering columns and comments of a topic's table, from the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

import bayou
from bayou.errors import ConfigurationError, PipelineError
from bayou.ingest.config import load_configuration
from bayou.ingest.inspection import plan_run, prove_offsets
from bayou.kernel.commands.optimize import auto_compaction

EXAMPLE = Path(__file__).parents[4] / "examples" / "local" / "clustered.yaml"

DEFINED = """\
          table-properties: {delta.enableChangeDataFeed: true, delta.targetFileSize: 64mb}
        cluster-by: [id]
        comment: every event
        column-comments: {id: the key, name: what it is called}
"""


@pytest.fixture
def defined(new_pipeline, request):
    """Return a function that creates a pipeline with lines below `delta-config`."""

    def make(lines=DEFINED, *, upserts=False, evolves=True):
        pipeline = new_pipeline(upserts=upserts)
        pipeline.evolves = evolves
        return configured(pipeline, lines)

    return make


def configured(pipeline, lines):
    pipeline.more = lines
    pipeline.write_file()
    return pipeline


def planned(pipeline):
    (plan,) = plan_run(pipeline.configuration, pipeline.configuration.topics)
    return plan


def definition(pipeline):
    table = pipeline.table
    properties = {
        key: value
        for key, value in table.detail().properties.items()
        if key in ("delta.enableChangeDataFeed", "delta.targetFileSize")
    }
    comments = {f.name: f.metadata.get("comment") for f in table.snapshot().schema}
    detail = table.detail()
    return (properties, detail.clustering_columns, detail.description, comments["id"])


EXPECTED = (
    {"delta.enableChangeDataFeed": "true", "delta.targetFileSize": "64mb"},
    ("id",),
    "every event",
    "the key",
)
NONE = ({}, (), None, None)
CHECKPOINT_INTERVALS = """\
          checkpoint-interval: 5
          table-properties: {delta.checkpointInterval: 6}
"""


@pytest.mark.parametrize("upserts", [False, True])
def test_a_new_table_has_the_configured_definition(defined, upserts):
    pipeline = defined(upserts=upserts)
    pipeline.produce({"id": 1, "name": "a"})
    pipeline.take_in()
    assert definition(pipeline) == EXPECTED
    assert pipeline.table.detail().version == 0


@pytest.mark.parametrize("upserts", [False, True])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_new_table_gets_iceberg_compatibility(defined, upserts, version):
    key = f"delta.enableIcebergCompatV{version}"
    lines = f"          table-properties: {{{key}: true}}\n"
    pipeline = defined(lines, upserts=upserts)
    pipeline.produce({"id": 1, "name": "a"})
    pipeline.take_in()
    pipeline.produce({"id": 1, "name": "b", "color": "red"})
    pipeline.take_in()
    detail = pipeline.table.detail()
    assert detail.properties[key] == "true"
    assert detail.properties["delta.columnMapping.mode"] == "name"
    assert len(pipeline.table.to_arrow()) == (1 if upserts else 2)
    assert not planned(pipeline).table_differences


def test_compatibility_that_cannot_be_enabled_stops_the_topic(defined):
    pipeline = defined("")
    pipeline.produce({"id": 1, "name": "a"})
    pipeline.take_in()
    lines = (
        "          table-properties: {delta.enableIcebergCompatV2: true}\n"
        "        apply-table-changes: true\n"
    )
    configured(pipeline, lines)
    pipeline.produce({"id": 2, "name": "b"})
    with pytest.raises(PipelineError, match=r"delta\.columnMapping\.mode = name"):
        pipeline.take_in()


def test_the_example_of_the_guide_defines_its_table(small_pipeline):
    example = load_configuration(EXAMPLE, environment={}).topics[0].config.destination
    lines = EXAMPLE.read_text().split("    destination:\n")[1].splitlines(keepends=True)
    head = small_pipeline.file.read_text().split("    destination:\n")[0]
    small_pipeline.file.write_text(f"{head}    destination:\n{''.join(lines)}")
    small_pipeline.write_schema({"type": "object", "properties": {"user_id": {"type": "string"}}})
    small_pipeline.produce({"user_id": "a"})
    small_pipeline.take_in()
    detail = bayou.table(str(small_pipeline.folder / example.table_path)).detail()
    assert (detail.clustering_columns, detail.description) == (("user_id",), example.comment)
    assert example.delta_config.table_properties.items() <= detail.properties.items()
    guide = (EXAMPLE.parents[2] / "docs" / "guide" / "kafka.md").read_text()
    assert all(line.strip() in guide for line in lines[1:6])


@pytest.mark.parametrize("upserts", [False, True])
def test_a_column_that_is_added_gets_its_comment(defined, upserts):
    lines = "        column-comments: {color: as on the box}\n"
    pipeline = defined(lines, upserts=upserts)
    pipeline.produce({"id": 1})
    pipeline.take_in()
    pipeline.produce({"id": 2, "color": "red"})
    pipeline.take_in()
    pipeline.produce({"id": 3, "color": "blue"})
    pipeline.take_in()
    color = pipeline.table.snapshot().schema.get("color")
    assert color.metadata["comment"] == "as on the box"
    assert len(pipeline.table.to_arrow()) == 3


@pytest.mark.parametrize("upserts", [False, True])
def test_an_existing_table_changes_only_on_request(defined, upserts):
    pipeline = defined("", upserts=upserts)
    pipeline.produce({"id": 1, "name": "a"})
    pipeline.take_in()
    configured(pipeline, DEFINED)
    pipeline.produce({"id": 2, "name": "b"})
    pipeline.take_in()
    assert definition(pipeline) == NONE
    plan = planned(pipeline)
    assert not plan.table_changes
    assert list(plan.table_differences) == [
        "delta-config.table-properties.delta.enableChangeDataFeed is 'true', the table has none",
        "delta-config.table-properties.delta.targetFileSize is '64mb', the table has none",
        "cluster-by is 'id', the table has none",
        "comment is 'every event', the table has none",
        "column-comments.id is 'the key', the table has none",
        "column-comments.name is 'what it is called', the table has none",
    ]

    configured(pipeline, f"{DEFINED}        apply-table-changes: true\n")
    assert planned(pipeline).table_changes
    assert definition(pipeline) == NONE
    pipeline.produce({"id": 3, "name": "c"})
    pipeline.take_in()
    assert definition(pipeline) == EXPECTED
    assert sorted(pipeline.table.to_arrow()["id"].to_pylist()) == [1, 2, 3]
    version = pipeline.table.detail().version
    pipeline.produce({"id": 4, "name": "d"})
    pipeline.take_in()
    assert pipeline.table.detail().version == version + 1


def test_types_widen_when_the_configuration_enables_it(defined):
    pipeline = defined("          table-properties: {delta.enableTypeWidening: true}\n")
    pipeline.write_schema({"type": "object", "properties": {"id": {"type": "integer"}}})
    pipeline.produce({"id": 1})
    pipeline.take_in()
    assert "typeWidening" in {f.removesuffix("-preview") for f in table_features(pipeline)}


def table_features(pipeline):
    return pipeline.table.detail().table_features


def test_a_table_that_cannot_have_the_definition_stops_the_topic(defined):
    pipeline = defined("")
    pipeline.produce({"id": 1})
    pipeline.take_in()
    configured(pipeline, "        cluster-by: [nothing]\n        apply-table-changes: true\n")
    with pytest.raises(PipelineError, match=r"'events': apply-table-changes: .*nothing"):
        pipeline.take_in()
    assert bayou.table(pipeline.path).detail().version == 0


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("          table-properties: {delta.enableChangeDatafeeds: true}\n", "did you mean"),
        ("          table-properties: {delta.targetFileSize: huge}\n", "delta.targetFileSize"),
        ("          table-properties: {delta.targetFileSize: [1]}\n", "must be a string"),
        (
            "          table-properties: {delta.setTransactionRetentionDuration: 1 day}\n",
            "records are read twice",
        ),
        ("          table-properties: {delta.constraints.c: id > 0}\n", "ALTER TABLE"),
        ("          table-properties: {bayou.keyColumns: x}\n", "the pipeline sets it"),
        (
            CHECKPOINT_INTERVALS,
            "the same setting",
        ),
        ("        cluster-by: [a, b, c, d, e]\n", "Delta allows 4"),
        ("        cluster-by: [a, A]\n", "listed twice"),
        ("        cluster-by: [a]\n        partition-columns: [b]\n", "either clustered or"),
        ("        cluster-by: ['a,b']\n", "isn't a column"),
        ("        column-comments: {'': x}\n", "isn't a column"),
    ],
)
def test_a_definition_that_no_table_can_have_is_refused(defined, lines, message):
    pipeline = defined(lines)
    with pytest.raises(ConfigurationError, match=message):
        pipeline.take_in()


@pytest.mark.parametrize("upserts", [False, True])
def test_a_property_makes_batches_compact_their_table(defined, monkeypatch, upserts):
    monkeypatch.setattr(auto_compaction, "_MIN_FILES", 4)
    lines = "          table-properties: {delta.autoOptimize.autoCompact: true}\n"
    pipeline = defined(lines, upserts=upserts)
    for i in range(9):
        pipeline.produce({"id": i, "name": "a"})
        pipeline.take_in()
    pipeline.produce({"id": 3, "name": "b"})
    pipeline.take_in()
    operations = [str(commit["operation"]) for commit in pipeline.table.history()]
    assert operations.count("OPTIMIZE") >= 2
    rows = [(row["id"], row["name"]) for row in pipeline.table.to_arrow().to_pylist()]
    before = [] if upserts else [(3, "a")]
    assert sorted(rows) == sorted([*((i, "b" if i == 3 else "a") for i in range(9)), *before])
    assert prove_offsets(pipeline.configuration, pipeline.topic).holds
