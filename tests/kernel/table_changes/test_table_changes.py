"""Which ranges of versions have a change data feed, and with which schema."""

from __future__ import annotations

import pytest

from bayou.errors import (
    ArgumentError,
    BayouError,
    ChangeDataFeedError,
    SchemaError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from bayou.kernel import CommitBoundary, Table
from support.log_writer import add, commit_info, metadata, protocol

FEED = {"delta.enableChangeDataFeed": "true"}
AT = CommitBoundary.at_timestamp
VERSION = CommitBoundary.at_version


def load(feed, start: CommitBoundary, end: CommitBoundary | None = None):
    return Table.for_path(feed.engine, feed.path).changes(feed.engine, start, end)


@pytest.fixture
def five(feed):
    """Versions 0 to 4, of 0 to 4000 ms."""
    feed.create()
    for _ in range(4):
        feed.commit(commit_info(operation="NOTHING"))
    return feed


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (VERSION(0), None, (0, 4)),
        (VERSION(2), VERSION(3), (2, 3)),
        (VERSION(4), VERSION(4), (4, 4)),
        (VERSION(3), VERSION(99), (3, 4)),
        (AT(1), None, (1, 4)),
        (AT(1000), AT(1000), (1, 1)),
        (AT(-5), AT(3999), (0, 3)),
        (VERSION(1), AT(2500), (1, 2)),
        (AT(1001), VERSION(2), (2, 2)),
        (AT(1001), AT(1999), (None, None)),
    ],
)
def test_a_range_includes_its_ends_and_stops_at_the_latest_version(five, start, end, expected):
    changes = load(five, start, end)
    assert (changes.start_version, changes.end_version) == expected


def test_a_range_between_two_commits_has_no_rows(five):
    changes = load(five, AT(1001), AT(1999))
    assert list(changes.scan_builder().build().change_files(five.engine)) == []
    assert changes.schema.names == ("id", "name")


def test_a_start_after_the_latest_version_is_an_error_that_says_which_that_is(five):
    with pytest.raises(VersionNotFoundError, match="latest version is 4") as caught:
        load(five, VERSION(5))
    assert caught.value.latest == 4


@pytest.mark.parametrize(("start", "end"), [(AT(4001), None), (VERSION(0), AT(4001))])
def test_a_time_after_the_last_commit_is_an_error(five, start, end):
    with pytest.raises(VersionNotFoundError, match=r"00:00:04.000"):
        load(five, start, end)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (VERSION(3), VERSION(1)),
        (AT(3000), AT(1000)),
        (AT(1999), AT(1001)),
        (VERSION(3), AT(2500)),
        (AT(2001), VERSION(2)),
    ],
)
def test_a_range_that_ends_before_it_begins_is_an_error(five, start, end):
    with pytest.raises(ArgumentError, match="at the earlier version"):
        load(five, start, end)


def test_a_range_before_the_earliest_commit_is_an_error(five):
    head = (protocol(1, 4), metadata({"id": "long"}, (), FEED))
    five.log.checkpoint(3, head)
    for version in range(3):
        five.log.delete(f"{version:020d}.json")
    with pytest.raises(VersionNotFoundError):
        load(five, VERSION(1))
    assert load(five, VERSION(3)).start_version == 3
    assert load(five, AT(0)).start_version == 3


def test_the_feed_must_be_on_at_the_first_version(feed):
    feed.commit(protocol(1, 4), metadata({"id": "long"}))
    feed.commit(metadata({"id": "long"}, (), FEED))
    with pytest.raises(ChangeDataFeedError, match=r"from version 0 to 1 .*version 0") as caught:
        load(feed, VERSION(0))
    assert caught.value.version == 0
    assert load(feed, VERSION(1)).end_version == 1


def test_the_first_version_at_which_the_feed_is_off_is_named(feed):
    feed.create()
    feed.commit(commit_info())
    fields = {"id": "long", "name": "string"}
    feed.commit(metadata(fields, (), {**FEED, "delta.enableChangeDataFeed": "false"}))
    feed.commit(metadata(fields, (), FEED))
    with pytest.raises(ChangeDataFeedError) as caught:
        load(feed, VERSION(0))
    assert caught.value.version == 2
    assert load(feed, VERSION(0), VERSION(1)).end_version == 1
    assert load(feed, VERSION(3)).start_version == 3


def test_without_column_mapping_rows_have_the_latest_schema(feed):
    feed.create({"id": "long"})
    feed.commit(metadata({"id": "long", "new": "string"}, (), FEED))
    assert load(feed, VERSION(0), VERSION(0)).schema.names == ("id", "new")


def mapped(names: dict[str, str], mode: str = "name"):
    """A metaData action; logical by physical names."""
    fields = dict.fromkeys(names.values(), "long")
    action = dict(metadata(fields, (), {**FEED, "delta.columnMapping.mode": mode})["metaData"])
    for number, (physical, name) in enumerate(names.items(), 1):
        action["schemaString"] = action["schemaString"].replace(
            f'"name": "{name}", "type": "long", "nullable": true, "metadata": {{}}',
            f'"name": "{name}", "type": "long", "nullable": true, "metadata": '
            f'{{"delta.columnMapping.id": {number}, '
            f'"delta.columnMapping.physicalName": "{physical}"}}',
        )
    return {"metaData": action}


def test_with_column_mapping_rows_have_the_schema_of_the_last_version(feed):
    feed.commit(protocol(2, 5), mapped({"p1": "a"}))
    feed.commit(mapped({"p1": "a", "p2": "b"}))
    feed.commit(mapped({"p1": "c", "p2": "b"}))
    assert load(feed, VERSION(0), VERSION(0)).schema.names == ("a",)
    assert load(feed, VERSION(0), VERSION(1)).schema.names == ("a", "b")
    assert load(feed, VERSION(2)).schema.names == ("c", "b")
    with pytest.raises(ChangeDataFeedError, match="'a' was renamed to 'c'") as caught:
        load(feed, VERSION(0))
    assert caught.value.version == 2
    assert "read the changes up to version 1 separately" in str(caught.value)


def test_column_mapping_may_be_turned_on_inside_the_range(feed):
    feed.commit(protocol(2, 5), metadata({"a": "long"}, (), FEED))
    feed.commit(mapped({"a": "a"}))
    feed.commit(mapped({"a": "a", "p2": "b"}))
    assert load(feed, VERSION(0)).schema.names == ("a", "b")
    assert load(feed, VERSION(0), VERSION(1)).schema.names == ("a",)


def test_a_change_of_type_that_was_taken_back_is_named_all_the_same(feed):
    feed.create({"id": "long"})
    feed.commit(metadata({"id": "string"}, (), FEED))
    feed.commit(metadata({"id": "long"}, (), FEED))
    with pytest.raises(ChangeDataFeedError, match=r"type from string to long\. Start at") as caught:
        load(feed, VERSION(0))
    assert caught.value.version == 2
    assert load(feed, VERSION(2)).start_version == 2


def test_a_change_of_type_after_the_range_is_refused_too_for_the_latest_schema_counts(feed):
    feed.create({"id": "long"})
    feed.commit(commit_info())
    feed.commit(metadata({"id": "string"}, (), FEED))
    with pytest.raises(
        ChangeDataFeedError, match="is incompatible with the schema of version"
    ) as caught:
        load(feed, VERSION(0), VERSION(1))
    assert caught.value.version == 0


@pytest.mark.parametrize("name", ["_change_type", "_commit_version", "_commit_timestamp"])
def test_a_column_of_the_feeds_own_name_is_refused(feed, name):
    feed.create({"id": "long", name: "string"})
    with pytest.raises(SchemaError, match="is reserved for the change data feed") as caught:
        load(feed, VERSION(0))
    assert caught.value.column == name


def test_a_protocol_that_cant_be_read_inside_the_range_is_refused(feed):
    feed.create()
    feed.commit(protocol(3, 7, (["fromTheFuture"], ["fromTheFuture"])))
    feed.commit(protocol(3, 7, ([], ["changeDataFeed"])))
    with pytest.raises(UnsupportedFeatureError, match="version 1"):
        load(feed, VERSION(0))


@pytest.mark.parametrize("schema", ["{", '{"type": "array"}'])
def test_a_schema_in_the_range_that_cant_be_read_is_a_typed_error(feed, schema):
    feed.create()
    broken = dict(metadata({"id": "long"}, (), FEED)["metaData"])
    feed.commit({"metaData": {**broken, "schemaString": schema}})
    feed.commit(metadata({"id": "long", "name": "string"}, (), FEED))
    with pytest.raises(SchemaError, match="is invalid"):
        load(feed, VERSION(0))


def test_a_broken_commit_refuses_the_range_before_its_first_row(five):
    five.log.commit(add("a"), version=5)
    five.log.put(f"{5:020d}.json", b"nonsense\n")
    five.log.checkpoint(5, [protocol(1, 4), metadata({"id": "long", "name": "string"}, (), FEED)])
    with pytest.raises(BayouError, match="commit 5"):
        load(five, VERSION(0))
