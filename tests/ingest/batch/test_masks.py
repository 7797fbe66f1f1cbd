"""Fields with personal data, unreadable in the table."""

from __future__ import annotations

import hashlib
import json

import pytest

import bayou
from bayou.errors import ConfigurationError, PipelineError
from bayou.ingest import TopicTable, load_configuration
from bayou.ingest.dead_letters.dead_letter_replay import replay_dead_letters
from bayou.ingest.inspection import unseen_settings
from bayou.ingest.topic_table.direct_writer import DirectWriter, record_batch


def table(
    folder, masks, more="", *, upsert="false", flatten="null", schema="null", kafka="key, headers"
):
    (folder / "p.yaml").write_text(
        f"""
connector:
  topics:
    t:
      kafka-topic: t
      masks: {masks}
      flatten: {flatten}
      schema-file: {schema}
      kafka-columns: [{kafka}, timestamp]
      destination:
        table-path: t
        delta-config: {{enable-schema-evolution: true, enable-upsert: {upsert}}}
{more}
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


def test_masks_go_through_arrays_dots_in_names_and_flattened_fields(tmp_path):
    found = table(tmp_path, "{lines.mail: 'truncate:1', 'names[]': hash, no.dot: drop, tags: drop}")
    rows = [
        {
            "lines": [{"mail": "ab", "n": 1}, None, {"mail": None}],
            "names": ["x", None],
            "tags": [1],
        },
        {"lines": None, "names": [], "no.dot": "secret"},
    ]
    assert found.write(rows).rows == 2
    first, second = found.read().sort_by("_kafka_offset").to_pylist()
    assert [line and line["mail"] for line in first["lines"]] == ["a", None, None]
    assert first["names"] == [hashlib.sha256(b"x").hexdigest(), None]
    assert (second["lines"], second["names"]) == (None, [])
    assert {row["no.dot"] for row in (first, second)} == {None} == {first["tags"]}

    (tmp_path / "flat").mkdir()
    flat = table(tmp_path / "flat", "{place.street: drop}", flatten="_")
    flat.write([{"place": {"street": "x", "city": "Ulm"}}])
    (row,) = flat.read().to_pylist()
    assert (row["place_street"], row["place_city"]) == (None, "Ulm")


def test_a_field_that_differs_only_in_case_from_a_mask_is_masked(tmp_path):
    found = table(tmp_path, "{Email: drop, place.Mail: drop, LINES.mail: drop}")
    found.write([{"email": "secret"}, {"EMAIL": "secret"}])
    inner = [{"mAil": "secret", "n": 1}]
    found.write([{"place": {"mail": "secret", "MAIL": "secret", "n": 1}, "lines": inner}])
    assert b"secret" not in repr(found.read().to_pylist()).encode()
    (tmp_path / "flat").mkdir()
    flat = table(tmp_path / "flat", "{place: drop, person.Name: drop}", flatten="_")
    flat.write([{"id": 1, "Place": {"street": "secret"}, "person": {"name": "secret"}}])
    (row,) = flat.read().to_pylist()
    assert row["id"] == 1
    assert "secret" not in row.values()


def test_a_path_means_each_field_that_it_may_lead_to(tmp_path):
    found = table(tmp_path, "{a.b: drop, c.d.e: hash}")
    found.write([{"id": 1, "a.b": "secret"}])
    found.write([{"id": 2, "a": {"b": "secret", "n": 1}}, {"id": 3, "A.B": None, "a.b": "secret"}])
    found.write([{"c": {"d.e": "secret", "d": {"e": "secret"}}}, {"c.d": [{"e": "secret"}]}])
    found.write([{"c.d.e": "secret"}])
    assert b"secret" not in repr(found.read().to_pylist()).encode()
    digest = hashlib.sha256(b"secret").hexdigest()
    rows = [row for row in found.read().to_pylist() if row["c"]]
    assert [row["c"] for row in rows] == [{"d.e": digest, "d": {"e": digest}}]
    report = found.write([{"id": 4, "x": 1, "a.b": "secret"}, {"id": 5, "c.d.e": 5}])
    assert (report.rows, report.dead_letters) == (1, 1)


def test_masks_of_fields_that_nobody_has_seen_are_told(tmp_path):
    masks = "{mail: hash, emial: hash, place.street: drop, lines.mial: drop}"
    found = table(tmp_path, masks)
    file = load_configuration(tmp_path / "p.yaml", environment={})
    assert unseen_settings(file) == {}  # there is no table yet
    found.write([{"mail": "x", "place": {"street": "x"}, "lines": [{"mail": "x"}]}])
    assert unseen_settings(file)["t"].masks == ("emial", "lines.mial")
    (tmp_path / "flat").mkdir()
    flat = table(tmp_path / "flat", "{place: drop, person.nmae: hash}", flatten="_")
    flat.write([{"id": 1, "place": {"street": "x"}, "person": {"name": "x"}}])
    file = load_configuration(tmp_path / "flat" / "p.yaml", environment={})
    assert unseen_settings(file)["t"].masks == ("person.nmae",)  # drop leaves out whole objects


def test_masks_go_through_arrays_that_flattening_leaves(tmp_path):
    masks = "{lines.mail: drop, cart.lines.mail: drop, cart.owner: drop}"
    found = table(tmp_path, masks, flatten="_")
    lines = [{"mail": "a@b.c", "n": 1}]
    found.write([{"lines": lines, "cart": {"lines": lines, "owner": "x", "n": 2}}])
    (row,) = found.read().to_pylist()
    assert row["lines"] == row["cart_lines"] == [{"mail": None, "n": 1}]
    assert (row["cart_owner"], row["cart_n"]) == (None, 2)
    inner = {"items": {"properties": {"mail": {"type": "string"}}}}
    schema = {"properties": {"cart": {"properties": {"lines": {"type": "array", **inner}}}}}
    (tmp_path / "s.json").write_text(json.dumps(schema))
    with pytest.raises(ConfigurationError, match=r"'cart.lines.mial' isn't a field"):
        table(tmp_path, "{cart.lines.mial: drop}", flatten="_", schema="s.json").write([{}])
    fine = table(tmp_path, "{cart.lines.mail: drop}", flatten="_", schema="s.json")
    assert fine.write([{"cart": {"lines": lines}}]).rows == 1
    (tmp_path / "dots").mkdir()
    dots = table(tmp_path / "dots", masks, flatten=".")
    dots.write([{"cart": {"lines": lines, "owner": "x"}}])
    (row,) = dots.read().to_pylist()
    assert (row["cart.lines"], row["cart.owner"]) == ([{"mail": None, "n": 1}], None)


def test_an_object_that_flattening_takes_apart_is_masked_as_a_whole(tmp_path):
    found = table(tmp_path, "{place: drop, person.home: drop, name: hash}", flatten="_")
    record = {"id": 1, "place": {"street": "secret"}, "person": {"home": {"city": "secret"}}}
    report = found.write([record, {"id": 2, "name": {"first": "secret"}}])
    assert (report.rows, report.dead_letters) == (1, 1)
    (row,) = found.read().to_pylist()
    assert row["id"] == 1
    assert "secret" not in row.values()


def test_a_mask_that_would_leave_a_field_in_clear_is_refused(tmp_path):
    with pytest.raises(PipelineError, match="'place.street' is inside a string"):
        table(tmp_path, "{place.street: hash}").write([{"place": "x"}])
    (tmp_path / "s.json").write_text('{"properties": {"mail": {"type": "string"}, "p": {}}}')
    for masks, said in (
        ("{mial: hash}", "s.json, 'mial' isn't a field"),
        ("{p.q: drop}", "is inside a"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            table(tmp_path, masks, schema="s.json").write([{"mail": "a@b.c"}])


def test_a_later_record_that_would_stay_in_clear_is_a_dead_letter_and_stops_no_other(tmp_path):
    found = table(tmp_path, "{place.street: hash, mail: hash, tags.x: drop}")
    found.write([{"id": 1}])
    records = [{"place": "secret"}, {"mail": 5}, {"tags": ["secret"]}, {"id": 2}]
    report = found.write(records)
    assert (report.rows, report.dead_letters) == (1, 3)
    assert found.read(columns=["id"])["id"].to_pylist() == [1, 2]
    report = found.write([{"place": {"street": "x"}, "mail": "x", "tags": [{"x": "x"}]}])
    assert (report.rows, report.dead_letters) == (1, 0)
    assert {"place", "mail", "tags"} <= set(found.read().column_names)


def test_a_dead_letter_whose_field_would_stay_in_clear_becomes_no_row(tmp_path):
    table(tmp_path, "{}")
    file = tmp_path / "p.yaml"
    file.write_text(file.read_text().replace("evolution: true", "evolution: false"))
    strict = load_configuration(file, environment={})
    for offset, value in enumerate((b'{"id": 1}', b'{"id": 2, "mail": "a@b.c"}')):
        record = record_batch("t", [value], partition=0, first=offset, timestamps=[0])
        DirectWriter(strict, strict.topics[0]).write([record], {"kafka/cluster/t/-/0": offset})
    found = table(tmp_path, "{mail.name: hash}")
    with pytest.raises(PipelineError, match=r"'mail.name' is inside a string"):
        replay_dead_letters(load_configuration(file, environment={}), found.topic)
    assert found.read(columns=["id"])["id"].to_pylist() == [1]


def test_keys_may_be_hashed_and_nothing_else(tmp_path):
    keys = "        key-columns: [id]\n        ordering-column: at"
    for masks, said in (
        ("{id: drop}", "id is a key column"),
        ("{ID: drop}", "ID is a key column"),
        ("{at: hash}", "the ordering-column"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            table(tmp_path, masks, keys, upsert="true")
    with pytest.raises(ConfigurationError, match="the column key of kafka-columns would store"):
        table(tmp_path, "{Id: hash}", keys, upsert="true")
    found = table(tmp_path, "{id: hash}", keys, upsert="true", kafka="headers")
    found.write([{"id": "a", "at": 1}, {"id": "b", "at": 1}])
    found.write([{"id": "a", "at": 2}])
    digests = [hashlib.sha256(key).hexdigest() for key in (b"a", b"b")]
    assert {r["id"]: r["at"] for r in found.read().to_pylist()} == {
        digests[0]: 2,
        digests[1]: 1,
    }


def test_a_mask_that_does_not_fit_is_told(tmp_path):
    with pytest.raises(PipelineError, match="'n' is a int64, but hash needs a string"):
        table(tmp_path, "{n: hash}").write([{"n": 1}])
    with pytest.raises(ConfigurationError, match="write hash, drop, or truncate:3"):
        table(tmp_path, "{n: blur}")
