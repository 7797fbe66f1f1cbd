"""Fields with personal data, unreadable in the table."""

from __future__ import annotations

import hashlib

import pytest

import bayou
from bayou.errors import ConfigurationError, PipelineError
from bayou.ingest import TopicTable, load_configuration


def table(folder, masks, more=""):
    (folder / "p.yaml").write_text(
        f"""
connector:
  topics:
    t:
      kafka-topic: t
      masks: {masks}
      kafka-columns: [key, headers, timestamp]
      destination: {{table-path: t, {more} delta-config: {{enable-schema-evolution: true}}}}
"""
    )
    return TopicTable(load_configuration(folder / "p.yaml", environment={}), "t")


def test_masked_fields_are_hashed_dropped_and_truncated(tmp_path):
    found = table(tmp_path, "{mail: hash, place.street: drop, name: 'truncate:2', none: hash}")
    people = [
        {"mail": "a@b.c", "name": "Ünal", "place": {"street": "x", "city": "Ulm"}},
        {"mail": None, "name": "B", "place": None},
        {"mail": "a@b.c"},
    ]
    found.write(people)
    rows = sorted(found.read().to_pylist(), key=lambda r: r["_kafka_offset"])
    digest = hashlib.sha256(b"a@b.c").hexdigest()
    assert [r["mail"] for r in rows] == [digest, None, digest]
    assert [r["name"] for r in rows] == ["Ün", "B", None]
    assert [r["place"] for r in rows] == [{"city": "Ulm", "street": None}, None, None] or [
        r["place"] for r in rows
    ] == [{"street": None, "city": "Ulm"}, None, None]
    assert {"_kafka_key", "_kafka_headers", "_kafka_timestamp"} <= set(rows[0])
    files = bayou.table(found.topic.table_path).snapshot().files()["path"].to_pylist()
    stored = b"".join((tmp_path / "t" / name).read_bytes() for name in files)
    assert b"a@b.c" not in stored


def test_a_mask_that_does_not_fit_is_told(tmp_path):
    with pytest.raises(PipelineError, match="'n' is a int64, and hash is for texts"):
        table(tmp_path, "{n: hash}").write([{"n": 1}])
    with pytest.raises(ConfigurationError, match="write hash, drop, or truncate:3"):
        table(tmp_path, "{n: blur}")
