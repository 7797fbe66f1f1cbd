from types import SimpleNamespace

import pytest

from bayou.errors import ArgumentError
from bayou.kernel.commands.write import WriteMode
from bayou.protocol.schema import LONG, StructField, StructType
from bayou.spark.write import WriteOptions
from bayou.spark.write.options import with_session_defaults

ROWS = StructType((StructField(name="id", data_type=LONG),))


def parsed(**options):
    return WriteOptions.parse({"path": "/t", **options})


def test_names_are_the_same_in_any_case():
    options = WriteOptions.parse({"PATH": "/t", "MERGESCHEMA": "True", "maxrecordsPERfile": "7"})
    assert (options.path, options.merge_schema, options.max_records_per_file) == ("/t", True, 7)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mergeSchema", "yes"),
        ("dataChange", "no"),
        ("maxRecordsPerFile", "many"),
        ("partitionOverwriteMode", "some"),
        ("txnVersion", "-1"),
    ],
)
def test_a_value_that_makes_no_sense_names_its_option(name, value):
    with pytest.raises(ArgumentError, match=f"{name}: '{value}' isn't") as caught:
        parsed(**{"txnAppId": "job", "txnVersion": "1", name: value})
    assert caught.value.argument == name


def test_partitions_of_null_are_not_replaced_without_notice():
    assert parsed(useNullIntolerantEqualityWithDPO="false").path == "/t"
    with pytest.raises(ArgumentError, match="partition of NULL"):
        parsed(useNullIntolerantEqualityWithDPO="true")


@pytest.mark.parametrize("name", ["replaceOn", "replaceUsing"])
def test_an_option_that_asks_for_other_rows_is_refused_and_not_passed_over(name):
    with pytest.raises(ArgumentError, match=name):
        parsed(**{name: "id"})


def test_no_limit_of_records_is_what_spark_means_by_zero():
    assert parsed(maxRecordsPerFile="0").max_records_per_file is None


def test_an_idempotent_write_needs_application_and_version():
    assert parsed(txnAppId="job", txnVersion="7").application == ("job", 7)
    with pytest.raises(ArgumentError, match="Set both"):
        parsed(txnAppId="job")


def test_table_properties_keep_the_case_that_they_come_in():
    assert parsed(**{"delta.appendOnly": "true", "other": "x"}).properties == {
        "delta.appendOnly": "true"
    }


def test_replace_where_and_overwrite_schema_are_one_too_many():
    options = parsed(replaceWhere="id > 1", overwriteSchema="true")
    with pytest.raises(ArgumentError, match="replaceWhere"):
        options.table_write(ROWS, WriteMode.OVERWRITE)


@pytest.mark.parametrize("more", [{"replaceWhere": "id > 1"}, {"overwriteSchema": "true"}])
def test_the_dynamic_mode_and_another_way_are_one_too_many_for_a_partitioned_table(more):
    options = parsed(partitionOverwriteMode="dynamic", **more)
    write = options.table_write(ROWS, WriteMode.OVERWRITE)
    assert not write.replaces_partitions(())
    with pytest.raises(ArgumentError, match="partitionOverwriteMode=dynamic"):
        write.replaces_partitions(("day",))


def test_an_append_passes_over_what_is_about_overwriting():
    options = parsed(replaceWhere="id > 1", partitionOverwriteMode="dynamic")
    write = options.table_write(ROWS, WriteMode.APPEND)
    assert (write.replace_where, write.dynamic_partitions) == (None, False)


def test_credentials_are_in_no_representation():
    assert "hush" not in repr(parsed(aws_secret_access_key="hush"))


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "zstd", "delta.parquet.compression.codec": "snappy"},
        {"optimizeWrite": "true", "delta.autoOptimize.optimizeWrite": "false"},
        {"delta.appendOnly": "true", "DELTA.appendonly": "false"},
    ],
)
def test_an_option_that_contradicts_a_property_is_refused(options):
    with pytest.raises(ArgumentError, match="DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS"):
        with_session_defaults(SimpleNamespace(conf=SimpleNamespace(getAll={})), "/t", options)


def test_an_option_overrides_the_sessions_default_of_a_property():
    key = "spark.databricks.delta.properties.defaults.parquet.compression.codec"
    conf = {key: "snappy"}
    session = SimpleNamespace(conf=SimpleNamespace(getAll=conf))
    options = with_session_defaults(session, "/t", {"compression": "zstd"})
    assert options["compression"] == "zstd"


def test_options_can_be_parsed_again():
    options = WriteOptions.parse(
        {
            "path": "/t",
            "mergeSchema": "true",
            "replaceWhere": "id > 1",
            "txnAppId": "a",
            "txnVersion": "7",
            "maxRecordsPerFile": "10",
            "optimizeWrite": "false",
            "delta.appendOnly": "true",
            "bayou.properties": '{"owner": "me"}',
            "aws_region": "eu",
            "bayou.partitionBy": "a\nb",
            "bayou.mode": "ErrorIfExists",
            "bayou.operation": "CREATE TABLE AS SELECT",
            "bayou.sessionTransaction": "true",
        }
    )
    assert WriteOptions.parse(options.to_options()) == options


def test_secrets_that_contradict_each_other_are_in_no_message():
    session = SimpleNamespace(conf=SimpleNamespace(getAll={}))
    options = {"AWS_SECRET_ACCESS_KEY": "open-sesame", "aws_secret_access_key": "melon"}
    with pytest.raises(ArgumentError, match="aws_secret_access_key") as raised:
        with_session_defaults(session, "/t", options)
    assert "sesame" not in str(raised.value)
    assert "melon" not in str(raised.value)
