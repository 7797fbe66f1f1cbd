"""What a table asks of its writers that isn't supported is refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.errors import UnsupportedFeatureError

FORMATS = "delta.universalFormat.enabledFormats"
ROWS = pa.table({"id": [1]})


@pytest.mark.parametrize("formats", ["hudi"])
def test_metadata_of_other_formats_is_refused_by_name(tmp_path, formats):
    path = str(tmp_path / "t")
    with pytest.raises(UnsupportedFeatureError, match=formats) as caught:
        bayou.write(path, ROWS, configuration={FORMATS: formats})
    assert caught.value.features == (f"universalFormat ({formats})",)
    bayou.write(path, ROWS)
    with pytest.raises(UnsupportedFeatureError, match=formats):
        bayou.table(path).alter.set_table_properties({FORMATS: formats})
    assert bayou.table(path).snapshot().version == 0


def test_a_table_that_others_keep_in_another_format_is_read_and_written_once_that_ends(tmp_path):
    path = str(tmp_path / "t")
    bayou.write(path, ROWS)
    log = tmp_path / "t" / "_delta_log"
    text = (log / f"{0:020d}.json").read_text()
    told = text.replace('"configuration":{', f'"configuration":{{"{FORMATS}":"hudi"')
    assert told != text
    (log / f"{0:020d}.json").write_text(told)
    (log / f"{0:020d}.crc").unlink(missing_ok=True)
    table = bayou.table(path)
    assert table.to_arrow() == ROWS
    with pytest.raises(UnsupportedFeatureError, match="hudi"):
        bayou.write(path, ROWS)
    table.vacuum(dry_run=True)
    table.alter.unset_table_properties(FORMATS)
    bayou.write(path, ROWS)
    assert table.to_arrow().num_rows == 2


def with_feature(path, feature: str, configuration: dict[str, str]) -> None:
    """Rewrite the table's first commit, so that it lists a feature and has more properties."""
    log = Path(path) / "_delta_log"
    commit = log / f"{0:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            names = [feature, "appendOnly"]
            action["protocol"] = {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": [] if "WriterOnly" in feature else [feature],
                "writerFeatures": names,
            }
        if "metaData" in action:
            action["metaData"]["configuration"].update(configuration)
    commit.write_text("\n".join(map(json.dumps, actions)))
    (log / f"{0:020d}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("feature", ["redirectReaderWriter-preview", "redirectWriterOnly-preview"])
def test_an_error_says_where_a_redirected_table_has_moved(tmp_path, feature):
    path = str(tmp_path / "t")
    bayou.write(path, ROWS)
    spec = json.dumps({"sourcePath": path, "destPath": "s3://bucket/moved"})
    value = {"type": "PathBasedRedirect", "state": "REDIRECT-READY", "spec": spec}
    with_feature(path, feature, {f"delta.{feature}": json.dumps(value)})
    with pytest.raises(UnsupportedFeatureError, match=r"s3://bucket/moved") as caught:
        bayou.write(path, ROWS)
    assert caught.value.features == (feature,)
    if "WriterOnly" in feature:
        assert bayou.table(path).to_arrow() == ROWS
    else:
        with pytest.raises(UnsupportedFeatureError, match=r"s3://bucket/moved"):
            bayou.table(path).to_arrow()


@pytest.mark.parametrize("feature", ["adaptiveMetadata-preview", "adaptiveMetadata"])
def test_a_refused_feature_has_a_reason(tmp_path, feature):
    path = str(tmp_path / "t")
    bayou.write(path, ROWS)
    with_feature(path, feature, {})
    with pytest.raises(UnsupportedFeatureError, match="manifests of Iceberg's format version 4"):
        bayou.table(path).to_arrow()


@pytest.mark.parametrize(
    ("feature", "reason"),
    [
        ("collations", "collation's rules"),
        ("icebergWriterCompatV1", "the feature's rules"),
    ],
)
def test_a_feature_that_is_only_read_has_a_reason(tmp_path, feature, reason):
    path = str(tmp_path / "t")
    bayou.write(path, ROWS)
    log = tmp_path / "t" / "_delta_log"
    commit = log / f"{0:020d}.json"
    old = '"protocol":{"minReaderVersion":1,"minWriterVersion":2}'
    new = f'"protocol":{{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["{feature}"]}}'
    assert old in commit.read_text()
    commit.write_text(commit.read_text().replace(old, new))
    (log / f"{0:020d}.crc").unlink(missing_ok=True)
    assert bayou.table(path).to_arrow() == ROWS
    with pytest.raises(UnsupportedFeatureError, match=reason):
        bayou.write(path, ROWS)


def test_the_older_name_of_timestamp_ntz_is_written(tmp_path):
    path = str(tmp_path / "t")
    rows = pa.table({"t": pa.array([0, 1], pa.timestamp("us"))})
    bayou.write(path, rows)
    with_feature(path, "timestampWithoutTimezone", {})
    bayou.write(path, rows)
    more = rows.append_column("u", rows.column(0))
    bayou.write(path, more, schema_mode="merge")
    features = bayou.table(path).snapshot().protocol.writer_features
    assert "timestampNtz" not in features
    assert "timestampWithoutTimezone" in features
    assert bayou.table(path).to_arrow().num_rows == 6
