"""The metadata of a commit or a table as updates of the catalog's entry."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import bayou
from bayou.protocol.actions import DomainMetadata, Metadata, Protocol, encode_action
from bayou.unity.table_metadata import MetadataChange, in_commit_timestamp
from bayou.unity.wire import TableMetadata, columns_body

SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": True, "metadata": {"comment": "c"}},
        {
            "name": "m",
            "type": {
                "type": "map",
                "keyType": "string",
                "valueType": {
                    "type": "array",
                    "elementType": {
                        "type": "struct",
                        "fields": [
                            {
                                "name": "d",
                                "type": "decimal(10,2)",
                                "nullable": True,
                                "metadata": {},
                            }
                        ],
                    },
                    "containsNull": True,
                },
                "valueContainsNull": False,
            },
            "nullable": False,
            "metadata": {},
        },
    ],
}
METADATA = Metadata(
    id="1",
    schema_string=json.dumps(SCHEMA),
    partition_columns=["id"],
    configuration={"delta.appendOnly": "true"},
    description="orders",
)
PROTOCOL = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=["catalogManaged"],
    writer_features=["catalogManaged", "clustering"],
)


def entry(**values) -> TableMetadata:
    return TableMetadata(table_type="MANAGED", table_uuid="u", location="file:///t", **values)


def test_columns_have_the_names_of_the_api():
    columns = columns_body(json.dumps(SCHEMA))
    nested = columns["fields"][1]["type"]
    assert nested["key-type"] == "string"
    assert nested["value-contains-null"] is False
    assert nested["value-type"]["contains-null"] is True
    assert nested["value-type"]["element-type"]["fields"][0]["type"] == "decimal(10,2)"
    assert columns["fields"][0] == SCHEMA["fields"][0]
    assert not {"keyType", "elementType"} & set(json.dumps(columns).split('"'))


def test_a_new_table_has_all_metadata():
    clustering = DomainMetadata(
        domain="delta.clustering",
        configuration='{"clusteringColumns":[["id"]],"domainName":"delta.clustering"}',
        removed=False,
    )
    other = DomainMetadata(domain="mine", configuration="{}", removed=False)
    lines = [encode_action(a) for a in (PROTOCOL, METADATA, clustering, other)]
    body = MetadataChange.of_commit(lines).create_body("t", "file:///t", "MANAGED", 5)
    assert body["protocol"] == {
        "min-reader-version": 3,
        "min-writer-version": 7,
        "reader-features": ["catalogManaged"],
        "writer-features": ["catalogManaged", "clustering"],
    }
    assert body["domain-metadata"] == {"delta.clustering": {"clusteringColumns": [["id"]]}}
    assert body["comment"] == "orders"
    assert body["partition-columns"] == ["id"]
    assert body["last-commit-timestamp-ms"] == 5


def test_only_changes_are_sent():
    known = entry(
        columns=columns_body(json.dumps(SCHEMA)),
        partition_columns=["id"],
        properties={
            "delta.appendOnly": "true",
            "delta.minReaderVersion": "3",
            "delta.minWriterVersion": "7",
            "delta.feature.catalogManaged": "supported",
            "delta.feature.clustering": "supported",
            "delta.lastUpdateVersion": "4",
        },
    )
    change = MetadataChange(metadata=METADATA, protocol=PROTOCOL)
    assert [u["action"] for u in change.updates(known, removes=True)] == ["set-table-comment"]
    updates = change.updates(
        entry(properties={"old": "1", "clusteringColumns": "[]"}), removes=True
    )
    assert {u["action"]: u for u in updates}["remove-properties"]["removals"] == ["old"]
    assert [u["action"] for u in updates] == [
        "set-columns",
        "set-partition-columns",
        "set-properties",
        "remove-properties",
        "set-table-comment",
        "set-protocol",
    ]
    kept = change.updates(entry(properties={"old": "1"}), removes=False)
    assert "remove-properties" not in [u["action"] for u in kept]


@pytest.mark.parametrize("shown", ["clusteringColumns", "delta.clusteringColumns"])
def test_domains_are_compared_with_the_properties_that_show_them(shown):
    def change(columns, *, removed=False):
        configuration = json.dumps({"clusteringColumns": columns})
        domain = DomainMetadata(
            domain="delta.clustering", configuration=configuration, removed=removed
        )
        return MetadataChange(domains=(domain,)).updates(known, removes=True)

    known = entry(properties={shown: '[["id"]]'})
    assert change([["id"]]) == []
    (update,) = change([["v"]])
    assert update["updates"] == {"delta.clustering": {"clusteringColumns": [["v"]]}}
    (update,) = change([], removed=True)
    assert update == {"action": "remove-domain-metadata", "domains": ["delta.clustering"]}
    known = entry(properties={})
    assert change([], removed=True) == []


def test_domains_and_properties_that_are_not_json_are_tolerated():
    def domain(configuration):
        return DomainMetadata(domain="delta.clustering", configuration=configuration, removed=False)

    known = entry(properties={"clusteringColumns": "id, v"})
    change = MetadataChange(domains=(domain('{"clusteringColumns":[["id"]]}'),))
    assert [u["action"] for u in change.updates(known, removes=False)] == ["set-domain-metadata"]
    for damaged in ("", "id", "[]", '{"columns":[]}', "[" * 100_000):
        change = MetadataChange(metadata=METADATA, protocol=PROTOCOL, domains=(domain(damaged),))
        assert "domain-metadata" not in change.create_body("t", "file:///t", "EXTERNAL", 5)
        actions = [u["action"] for u in change.updates(known, removes=False)]
        assert "set-domain-metadata" not in actions


def test_a_commit_of_data_changes_no_metadata(tmp_path):
    properties = {"delta.enableInCommitTimestamps": "true"}
    bayou.write(tmp_path / "t", pa.table({"id": [1]}), configuration=properties)
    bayou.write(tmp_path / "t", pa.table({"id": [1]}))
    lines = (tmp_path / "t" / "_delta_log" / f"{1:020}.json").read_bytes().splitlines()
    assert not MetadataChange.of_commit(lines)
    snapshot = bayou.table(tmp_path / "t").snapshot()
    assert in_commit_timestamp(lines) == snapshot.timestamp
    assert MetadataChange.of_table(snapshot.kernel).metadata == snapshot.kernel.metadata
