from __future__ import annotations

from bayou.protocol.actions import decode_action, encode_action
from bayou.protocol.commit_info import commit_info, operation_parameters_in_log


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
