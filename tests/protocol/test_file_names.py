from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.protocol import file_names
from bayou.protocol.file_names import (
    ChecksumFile,
    ClassicCheckpoint,
    CommitFile,
    CompactedCommits,
    LastCheckpointFile,
    MultiPartCheckpoint,
    StagedCommit,
    UuidCheckpoint,
    absolute_data_file_uri,
    data_file_path_to_uri,
    decode_data_file_uri,
    is_absolute_uri,
    parse_log_file,
    partition_directory,
)

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
VERSIONS = st.integers(min_value=0, max_value=10**20 - 1)
# What a file can be called: no surrogates, and no slash at the ends that a join would eat.
PATHS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("00000000000000000007.json", CommitFile(version=7)),
        ("00000000000000000007.crc", ChecksumFile(version=7)),
        ("00000000000000000010.checkpoint.parquet", ClassicCheckpoint(version=10)),
        (
            "00000000000000000010.checkpoint.0000000001.0000000003.parquet",
            MultiPartCheckpoint(version=10, part=1, parts=3),
        ),
        (
            f"00000000000000000010.checkpoint.{UUID}.json",
            UuidCheckpoint(version=10, uuid=UUID, format="json"),
        ),
        (
            f"00000000000000000010.checkpoint.{UUID}.parquet",
            UuidCheckpoint(version=10, uuid=UUID, format="parquet"),
        ),
        (
            "00000000000000000004.00000000000000000006.compacted.json",
            CompactedCommits(version=4, end_version=6),
        ),
        (f"00000000000000000003.{UUID}.json", StagedCommit(version=3, uuid=UUID)),
        ("_last_checkpoint", LastCheckpointFile()),
    ],
)
def test_every_kind_of_log_file_is_known_by_its_name(name, file):
    assert parse_log_file(name) == file


@pytest.mark.parametrize(
    "name",
    [
        "7.json",
        "000000000000000000007.json",
        "00000000000000000007.json.tmp",
        ".00000000000000000007.json.crc",
        "00000000000000000010.checkpoint.0000000004.0000000003.parquet",
        "00000000000000000010.checkpoint.0000000000.0000000003.parquet",
        "00000000000000000006.00000000000000000004.compacted.json",
        "00000000000000000010.checkpoint.not-a-uuid.parquet",
        "_last_checkpoint.tmp",
        "",
    ],
)
def test_a_file_of_no_known_kind_is_none(name):
    assert parse_log_file(name) is None


@given(VERSIONS)
def test_names_of_a_version_parse_back(version):
    assert parse_log_file(file_names.commit_file_name(version)) == CommitFile(version=version)
    assert parse_log_file(file_names.checksum_file_name(version)) == ChecksumFile(version=version)
    assert parse_log_file(file_names.checkpoint_file_name(version)) == ClassicCheckpoint(
        version=version
    )
    assert file_names.commit_file_name(version).startswith(file_names.list_prefix(version))


@given(VERSIONS, st.integers(1, 10**9), st.data())
def test_a_part_of_a_checkpoint_parses_back(version, parts, data):
    part = data.draw(st.integers(1, parts))
    name = file_names.multipart_checkpoint_file_name(version, part, parts)
    assert parse_log_file(name) == MultiPartCheckpoint(version=version, part=part, parts=parts)


@given(VERSIONS, VERSIONS)
def test_names_sort_as_their_versions_do(one, other):
    names = sorted([file_names.commit_file_name(one), file_names.commit_file_name(other)])
    assert names == [file_names.commit_file_name(v) for v in sorted([one, other])]


@given(PATHS)
def test_a_decoded_path_survives_the_encoding(path):
    assert decode_data_file_uri(data_file_path_to_uri(path)) == path


@given(PATHS)
def test_an_encoded_path_holds_nothing_that_a_uri_may_not(path):
    uri = data_file_path_to_uri(path)
    assert not set(uri) & set(' "#<>?[\\]^`{|}\n\t\x00\x7f\x85')


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        # As delta-spark 4.4.0 writes them.
        ("p=a b/part-0.parquet", "p=a%20b/part-0.parquet"),
        ("p=k%3Av/f", "p=k%253Av/f"),
        ("p=per%25cent/f", "p=per%2525cent/f"),
        ("s3://bucket/a b/f", "s3://bucket/a%20b/f"),
        ("a:b/c:d", "a%3Ab/c:d"),
    ],
)
def test_paths_are_encoded_as_delta_spark_does(path, uri):
    assert data_file_path_to_uri(path) == uri
    assert decode_data_file_uri(uri) == path


def test_letters_beyond_ascii_are_escaped_as_deltalake_does_and_read_either_way():
    uri = "s=%C3%BC%20%E2%98%83%20%F0%9F%98%80/f"
    assert data_file_path_to_uri("s=ü ☃ 😀/f") == uri
    assert decode_data_file_uri(uri) == decode_data_file_uri("s=ü%20☃%20😀/f") == "s=ü ☃ 😀/f"


def test_a_path_is_decoded_exactly_once():
    assert decode_data_file_uri("a%252525b") == "a%2525b"


@pytest.mark.parametrize(
    ("uri", "absolute"),
    [
        ("part-0.parquet", False),
        ("p=1/part-0.parquet", False),
        ("p=k%3Av/a:b", False),
        ("/lake/t/part-0.parquet", True),
        ("s3a://bucket/part-0.parquet", True),
        ("file:/lake/part-0.parquet", True),
    ],
)
def test_an_absolute_path_is_known_by_its_scheme_or_slash(uri, absolute):
    assert is_absolute_uri(uri) is absolute


@given(PATHS.filter(lambda p: not p.startswith("/") and "://" not in p))
def test_a_relative_path_stays_relative_when_encoded(path):
    assert not is_absolute_uri(data_file_path_to_uri(path))


def test_partition_folders_are_escaped_as_hive_does():
    values = {"a": "x/y=z'", "b": None, "c": "", "d e": "ü %[]^{}\n"}
    assert partition_directory(["a", "b", "c", "d e"], values) == (
        "a=x%2Fy%3Dz%27/b=__HIVE_DEFAULT_PARTITION__/c=__HIVE_DEFAULT_PARTITION__/"
        "d e=ü %25%5B%5D%5E%7B}%0A"
    )


def test_a_table_without_partition_columns_has_no_folder():
    assert partition_directory([], {}) == ""


@given(st.dictionaries(st.text(min_size=1), st.none() | st.text(), min_size=1))
def test_a_partition_folder_has_one_level_a_column(values):
    assert partition_directory(list(values), values).count("/") == len(values) - 1


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("/lake/a b/ü%20#.parquet", "file:/lake/a%20b/ü%2520%23.parquet"),
        ("s3://lake/a b/日", "s3://lake/a%20b/日"),
        ("/lake/x:y=1", "file:/lake/x:y=1"),
    ],
)
def test_absolute_uris_are_those_of_delta_spark(path, uri):
    assert absolute_data_file_uri(path) == uri
    assert decode_data_file_uri(uri).removeprefix("file:") == path
