import pytest

from bayou.errors import ArgumentError
from bayou.spark.read.options import SourceOptions, storage_options


def test_names_are_the_same_in_any_case():
    options = SourceOptions.parse({"PATH": "/t", "VersionAsOf": "3", "PUSHFILTERS": "True"})
    assert (options.path, options.version, options.push_filters) == ("/t", 3, True)


@pytest.mark.parametrize("given", [{}, {"path": "  "}])
def test_no_path_says_that_the_catalog_loses_it(given):
    with pytest.raises(ArgumentError, match="saveAsTable") as caught:
        SourceOptions.parse(given)
    assert caught.value.argument == "path"


def test_two_ways_to_travel_are_one_too_many():
    with pytest.raises(ArgumentError, match="both set"):
        SourceOptions.parse({"path": "/t", "versionAsOf": "1", "timestampAsOf": "2024-01-05"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("versionAsOf", "latest"),
        ("versionAsOf", "-1"),
        ("pushFilters", "yes"),
        ("maxPartitionBytes", "0"),
        ("minPartitions", "many"),
        ("bayou.replay.numPartitions", "0"),
    ],
)
def test_a_value_that_makes_no_sense_names_its_option(name, value):
    with pytest.raises(ArgumentError, match=f"{name}.*: '{value}' isn't") as caught:
        SourceOptions.parse({"path": "/t", name: value})
    assert caught.value.argument == name


def test_a_timestamp_that_makes_no_sense_names_its_option():
    with pytest.raises(ArgumentError, match=r"timestampAsOf: .*'now'.* cannot be converted"):
        SourceOptions.parse({"path": "/t", "timestampAsOf": "now"})


def test_storage_options_have_the_names_of_deltalake_and_no_other_option_is_one():
    given = {"path": "s3://b/t", "AWS_REGION": "eu-west-1", "timeout": "30s", "mergeSchema": "true"}
    assert SourceOptions.parse(given).storage == {"aws_region": "eu-west-1", "timeout": "30s"}


def test_hadoop_names_for_s3_are_translated():
    assert storage_options(
        {
            "fs.s3a.access.key": "k",
            "fs.s3a.secret.key": "s",
            "fs.s3a.endpoint": "127.0.0.1:9000",
            "fs.s3a.connection.ssl.enabled": "false",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.impl": "whatever",
        }
    ) == {
        "aws_access_key_id": "k",
        "aws_secret_access_key": "s",
        "aws_endpoint_url": "http://127.0.0.1:9000",
        "aws_allow_http": "true",
        "aws_virtual_hosted_style_request": "false",
    }


def test_our_own_names_win_over_those_of_hadoop():
    given = {"aws_access_key_id": "ours", "fs.s3a.access.key": "theirs"}
    assert storage_options(given) == {"aws_access_key_id": "ours"}


def test_credentials_are_in_no_representation():
    options = SourceOptions.parse({"path": "s3://b/t", "aws_secret_access_key": "hush"})
    assert "hush" not in repr(options)
