from __future__ import annotations

import pytest

from bayou.protocol.properties import (
    PROPERTIES,
    TableProperties,
    is_settable,
    normalize,
    validate,
)
from bayou.protocol.property_strings import PropertyValueError

DAY = 86_400_000


def test_a_table_that_says_nothing_has_the_defaults():
    properties = TableProperties({})
    assert properties.checkpoint_interval == 10
    assert properties.data_skipping_column_count == 32
    assert properties.data_skipping_columns is None
    assert properties.compression_codec == "zstd"
    assert properties.log_retention_ms == 30 * DAY
    assert properties.deleted_file_retention_ms == 7 * DAY
    assert properties.transaction_retention_ms is None
    assert properties.isolation_level == "Serializable"
    assert properties.write_stats_as_json
    assert not properties.write_stats_as_struct
    assert properties.expired_log_cleanup
    assert not properties.append_only
    assert properties.target_file_size is None
    assert properties.column_mapping_mode == "none"
    assert properties.checkpoint_policy == "classic"
    assert not properties.randomize_file_prefixes
    assert properties.random_prefix_length == 2
    assert not properties.change_data_feed
    assert not properties.deletion_vectors


def test_values_are_read_in_any_case():
    properties = TableProperties(
        {
            "delta.appendOnly": "TRUE",
            "delta.parquet.compression.codec": "Snappy",
            "delta.isolationLevel": "writeserializable",
            "delta.targetFileSize": "128mb",
        }
    )
    assert properties.append_only
    assert properties.compression_codec == "snappy"
    assert properties.isolation_level == "WriteSerializable"
    assert properties.target_file_size == 128 * 1024 * 1024


def test_columns_with_statistics_are_paths():
    properties = TableProperties({"delta.dataSkippingStatsColumns": "a"})
    assert properties.data_skipping_columns == (("a",),)


def test_uncompressed_is_another_word_for_none():
    properties = TableProperties({"delta.parquet.compression.codec": "UNCOMPRESSED"})
    assert properties.compression_codec == "none"


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ({"delta.checkpointIntervall": "5"}, "did you mean 'delta.checkpointInterval'"),
        ({"delta.nothingLikeIt.atAll": "5"}, "unknown table property"),
        ({"delta.checkpointInterval": "0"}, "at least 1"),
        ({"delta.checkpointInterval": "ten"}, "an integer"),
        ({"delta.appendOnly": "yes"}, "true or false"),
        ({"delta.isolationLevel": "None"}, "one of Serializable"),
        ({"delta.logRetentionDuration": "interval 1 month"}, "no fixed length"),
        ({"delta.dataSkippingStatsColumns": "a,,b"}, "column names"),
        ({"delta.targetFileSize": "big"}, "size"),
        ({"delta.columnMapping.maxColumnId": "5"}, "set by writers"),
        ({"delta.checkpointPolicy": "v3"}, "classic, v2"),
    ],
)
def test_an_unusable_property_of_a_user_is_refused(configuration, message):
    with pytest.raises(PropertyValueError, match=message) as caught:
        validate(configuration)
    assert caught.value.key in configuration


def test_properties_of_other_owners_and_open_families_pass():
    validate(
        {
            "owner": "me",
            "myapp.delta.x": "1",
            "delta.constraints.positive": "id > 0",
            "delta.feature.timestampNtz": "supported",
            "DELTA.APPENDONLY": "true",
        }
    )


def test_keys_get_the_spelling_of_the_log():
    assert normalize({"delta.APPENDONLY": "true", "Owner": "me"}) == {
        "delta.appendOnly": "true",
        "Owner": "me",
    }


def test_users_can_set_all_properties_that_writers_dont_set():
    settable = ("delta.appendOnly", "delta.columnMapping.mode", "owner", "delta.unknown")
    assert all(map(is_settable, settable))
    assert not is_settable("delta.columnMapping.maxColumnId")
    assert not is_settable("delta.COLUMNMAPPING.maxColumnId")


def test_a_value_in_the_log_that_cant_be_read_names_its_key():
    with pytest.raises(PropertyValueError, match=r"delta\.checkpointInterval"):
        _ = TableProperties({"delta.checkpointInterval": "x"}).checkpoint_interval


def test_every_default_is_a_value_that_the_table_could_state():
    for known in PROPERTIES.values():
        if isinstance(known.default, bool | str):
            text = str(known.default)
            assert known.read({known.key: text}) == known.default
