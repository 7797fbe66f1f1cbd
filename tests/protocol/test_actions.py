from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.protocol.actions import (
    AddCDCFile,
    AddFile,
    CheckpointMetadata,
    CommitInfo,
    DeletionVectorDescriptor,
    DomainMetadata,
    Format,
    Metadata,
    Protocol,
    RemoveFile,
    SidecarFile,
    Transaction,
    commit_info,
    decode_action,
    decode_actions,
    encode_action,
    encode_actions,
    operation_parameters_in_log,
)

TEXT = st.text(max_size=8)
LONGS = st.integers(-(2**63), 2**63 - 1)
SIZES = st.integers(0, 2**63 - 1)
VALUES = st.dictionaries(TEXT, st.none() | TEXT, max_size=3)
TAGS = st.none() | VALUES
VECTORS = st.none() | st.builds(
    DeletionVectorDescriptor,
    storage_type=st.sampled_from("uip"),
    path_or_inline_dv=TEXT,
    offset=st.none() | SIZES,
    size_in_bytes=SIZES,
    cardinality=SIZES,
)
OPTIONAL = st.none() | LONGS
ACTIONS = st.one_of(
    st.builds(
        AddFile,
        path=TEXT,
        partition_values=VALUES,
        size=SIZES,
        modification_time=LONGS,
        data_change=st.booleans(),
        stats=st.none() | TEXT,
        tags=TAGS,
        deletion_vector=VECTORS,
        base_row_id=OPTIONAL,
        default_row_commit_version=OPTIONAL,
        clustering_provider=st.none() | TEXT,
    ),
    st.builds(
        RemoveFile,
        path=TEXT,
        deletion_timestamp=OPTIONAL,
        data_change=st.booleans(),
        extended_file_metadata=st.none() | st.booleans(),
        partition_values=TAGS,
        size=st.none() | SIZES,
        deletion_vector=VECTORS,
    ),
    st.builds(AddCDCFile, path=TEXT, partition_values=VALUES, size=SIZES),
    st.builds(
        Metadata,
        id=TEXT,
        name=st.none() | TEXT,
        schema_string=TEXT,
        partition_columns=st.lists(TEXT, max_size=2),
        created_time=OPTIONAL,
        configuration=st.dictionaries(TEXT, TEXT, max_size=2),
    ),
    st.builds(
        Protocol,
        min_reader_version=st.integers(1, 9),
        min_writer_version=st.integers(1, 9),
        reader_features=st.none() | st.lists(TEXT, max_size=2),
        writer_features=st.none() | st.lists(TEXT, max_size=2),
    ),
    st.builds(Transaction, app_id=TEXT, version=LONGS, last_updated=OPTIONAL),
    st.builds(DomainMetadata, domain=TEXT, configuration=TEXT, removed=st.booleans()),
    st.builds(SidecarFile, path=TEXT, size_in_bytes=SIZES, modification_time=LONGS, tags=TAGS),
    st.builds(CheckpointMetadata, version=SIZES, tags=TAGS),
    st.builds(CommitInfo, st.dictionaries(TEXT, TEXT | LONGS | st.booleans() | st.none())),
)


@given(st.lists(ACTIONS, max_size=4))
def test_actions_survive_the_log(actions):
    assert list(decode_actions(encode_actions(actions))) == actions


@given(ACTIONS)
def test_a_line_survives_the_action(action):
    line = encode_action(action)
    again = decode_action(line)
    assert again is not None
    assert encode_action(again) == line
    assert b"\n" not in line


def test_names_are_those_of_the_spec():
    add = AddFile(
        path="a", partition_values={"p": None}, size=1, modification_time=2, data_change=True
    )
    assert json.loads(encode_action(add)) == {
        "add": {
            "path": "a",
            "partitionValues": {"p": None},
            "size": 1,
            "modificationTime": 2,
            "dataChange": True,
        }
    }
    assert json.loads(encode_action(Metadata(id="i", schema_string="{}"))) == {
        "metaData": {
            "id": "i",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": "{}",
            "partitionColumns": [],
            "configuration": {},
        }
    }


def test_required_fields_are_written_though_they_are_defaults():
    remove = json.loads(encode_action(RemoveFile(path="a")))["remove"]
    assert remove == {"path": "a", "dataChange": True}
    cdc = json.loads(encode_action(AddCDCFile(path="a", partition_values={}, size=1)))["cdc"]
    assert cdc["dataChange"] is False


def test_unknown_fields_and_actions_are_ignored():
    data = b"""{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":2,
        "dataChange":true,"future":{"x":1}},"more":1}""".replace(b"\n", b"")
    data += b'\n\n{"somethingNew":{"a":1}}\n   \n{"txn":{"appId":"x","version":1}}\n'
    assert [type(action) for action in decode_actions(data)] == [AddFile, Transaction]
    assert decode_action('{"somethingNew":{}}') is None


def test_commit_info_is_kept_as_it_is():
    line = b'{"commitInfo":{"timestamp":1,"operationParameters":{"mode":"Append"},"x":[1,null]}}'
    info = decode_action(line)
    assert isinstance(info, CommitInfo)
    assert info.get("x") == [1, None]
    assert info.get("operation") is None
    assert encode_action(info) == line


def test_the_key_of_a_file_is_its_path_and_deletion_vector():
    vector = DeletionVectorDescriptor(
        storage_type="u",
        path_or_inline_dv="ab^-aqEH.-t@S}K{vb[*k^",
        offset=4,
        size_in_bytes=40,
        cardinality=6,
    )
    assert vector.unique_id == "uab^-aqEH.-t@S}K{vb[*k^@4"
    remove = RemoveFile(path="a", deletion_vector=vector)
    assert remove.key == ("a", vector.unique_id)
    assert RemoveFile(path="a").key == ("a", None)


def test_format_defaults_to_parquet():
    assert Format() == Format(provider="parquet", options={})


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b'{"add":{"path":"a"}}', b'{"txn":{"appId":1,"version":1}}']
)
def test_a_line_that_isnt_an_action_is_an_error(line):
    with pytest.raises(msgspec.DecodeError):
        decode_action(line)


def test_parameters_have_the_form_of_delta_spark():
    assert operation_parameters_in_log(
        {"mode": "Append", "partitionBy": ["day", "ü"], "isManaged": False, "description": None}
    ) == {
        "mode": "Append",
        "partitionBy": '["day","ü"]',
        "isManaged": False,
        "description": None,
    }


def test_a_commits_provenance_is_complete_and_survives_the_log():
    info = commit_info(
        timestamp=1_700_000_000_000,
        operation="WRITE",
        operation_parameters={"mode": "Append", "partitionBy": []},
        engine_info="bayou/0.1.0",
        txn_id="a-b-c",
        is_blind_append=True,
        read_version=4,
        operation_metrics={"numFiles": 1, "numOutputRows": 10},
        user_metadata="hello",
    )
    assert info.values == {
        "timestamp": 1_700_000_000_000,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": "[]"},
        "readVersion": 4,
        "isolationLevel": "Serializable",
        "isBlindAppend": True,
        "operationMetrics": {"numFiles": "1", "numOutputRows": "10"},
        "userMetadata": "hello",
        "engineInfo": "bayou/0.1.0",
        "txnId": "a-b-c",
    }
    assert decode_action(encode_action(info)) == info


def test_what_isnt_known_is_left_out():
    info = commit_info(
        timestamp=1,
        operation="CREATE TABLE",
        operation_parameters={},
        engine_info="e",
        txn_id="t",
        is_blind_append=True,
        in_commit_timestamp=1,
    )
    assert next(iter(info.values)) == "inCommitTimestamp"
    assert not {"readVersion", "operationMetrics", "userMetadata"} & set(info.values)
