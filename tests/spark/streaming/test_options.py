import pytest

from bayou.errors import ArgumentError
from bayou.spark.streaming.options import LATEST, StreamOptions


def test_nothing_given_takes_a_thousand_files_of_the_table_as_it_is():
    options = StreamOptions.parse({"path": "/t"})
    assert options.files_limit == 1000
    assert not options.has_starting_position
    assert not options.allows_deletes
    assert options.fail_on_data_loss


def test_a_limit_of_bytes_alone_takes_any_number_of_files():
    options = StreamOptions.parse({"maxBytesPerTrigger": "10g"})
    assert (options.files_limit, options.max_bytes) == (None, 10 << 30)
    assert StreamOptions.parse({"maxbytespertrigger": "7", "maxFilesPerTrigger": "3"}) == (
        StreamOptions(max_files=3, max_bytes=7, allowed={})
    )


@pytest.mark.parametrize(
    ("text", "size"),
    [("1300b", 1300), ("2k", 2048), ("3kb", 3072), ("1M", 1 << 20), (" 1t ", 1 << 40)],
)
def test_sizes_are_read_as_spark_reads_them(text, size):
    assert StreamOptions.parse({"maxBytesPerTrigger": text}).max_bytes == size


def test_ignoring_changes_ignores_deletes_too():
    for name in ("ignoreChanges", "skipChangeCommits", "ignoreFileDeletion"):
        options = StreamOptions.parse({name: "true"})
        assert options.allows_deletes
        assert options.allows_changes
    assert not StreamOptions.parse({"ignoreDeletes": "true"}).allows_changes


def test_a_starting_version_is_a_number_or_latest():
    assert StreamOptions.parse({"startingVersion": "12"}).starting_version == 12
    assert StreamOptions.parse({"startingVersion": "latest"}).starting_version == LATEST


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maxFilesPerTrigger", "0"),
        ("maxFilesPerTrigger", "many"),
        ("maxBytesPerTrigger", "0"),
        ("maxBytesPerTrigger", "1.5g"),
        ("startingVersion", "-1"),
        ("startingVersion", "first"),
        ("ignoreDeletes", "yes"),
        ("excludeRegex", "("),
        ("allowSourceColumnDrop", "perhaps"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_the_options_name(name, value):
    with pytest.raises(ArgumentError, match="DELTA_ILLEGAL_OPTION") as caught:
        StreamOptions.parse({name: value})
    assert caught.value.argument == name


@pytest.mark.parametrize(("name", "value"), [("filter", "id = 1"), ("metadataColumn", "true")])
def test_what_a_batch_read_takes_is_refused_and_not_passed_over(name, value):
    with pytest.raises(ArgumentError, match="streams don.t support this option") as caught:
        StreamOptions.parse({name: value})
    assert caught.value.argument == name


def test_two_starts_are_refused():
    with pytest.raises(ArgumentError, match="startingVersion and startingTimestamp"):
        StreamOptions.parse({"startingVersion": "1", "startingTimestamp": "2024-01-01"})


def test_the_change_feed_has_an_older_name():
    assert StreamOptions.parse({"readChangeData": "true"}).read_change_feed
