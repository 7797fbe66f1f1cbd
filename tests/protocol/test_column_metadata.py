"""PROTOCOL.md, Generated, Default and Identity Columns, Invariants, Constraints, Clustering."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bayou.protocol import column_metadata as declared
from bayou.protocol.column_metadata import IdentityColumn
from bayou.protocol.schema import StructType


def schema(**columns: dict[str, Any]) -> StructType:
    fields = [
        {"name": name, "type": "long", "nullable": True, "metadata": metadata}
        for name, metadata in columns.items()
    ]
    return StructType.from_json(json.dumps({"type": "struct", "fields": fields}))


def test_expressions_of_columns_are_found_by_name():
    table = schema(
        a={},
        b={"delta.generationExpression": "a + 1"},
        c={"CURRENT_DEFAULT": "7"},
        d={"delta.invariants": '{"expression": {"expression": "d > 3"}}'},
        e={"delta.invariants": "not JSON"},
    )
    assert declared.generation_expressions(table) == {"b": "a + 1"}
    assert declared.column_defaults(table) == {"c": "7"}
    assert declared.column_invariants(table) == {"d": "d > 3"}


def test_identity_columns_say_how_they_go_on():
    identity = {"delta.identity.start": 1, "delta.identity.step": -2}
    explicit = {
        **identity,
        "delta.identity.allowExplicitInsert": True,
        "delta.identity.highWaterMark": -5,
    }
    found = declared.identity_columns(schema(a=identity, b=explicit, c={}))
    assert found == {
        "a": IdentityColumn(start=1, step=-2, high_water_mark=None, allow_explicit_insert=False),
        "b": IdentityColumn(start=1, step=-2, high_water_mark=-5, allow_explicit_insert=True),
    }


def test_constraints_are_properties():
    properties = {"delta.constraints.positive": "a > 0", "delta.appendOnly": "true"}
    assert declared.check_constraints(properties) == {"positive": "a > 0"}


NESTED = StructType.from_json(
    json.dumps(
        {
            "type": "struct",
            "fields": [
                {
                    "name": "s",
                    "nullable": True,
                    "metadata": {"delta.columnMapping.physicalName": "col-1"},
                    "type": {
                        "type": "struct",
                        "fields": [
                            {
                                "name": "x",
                                "type": "long",
                                "nullable": True,
                                "metadata": {"delta.columnMapping.physicalName": "col-2"},
                            }
                        ],
                    },
                },
                {"name": "plain", "type": "long", "nullable": True, "metadata": {}},
            ],
        }
    )
)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ([], ()),
        (["plain"], (("plain",),)),
        ([["plain"], ["col-1", "col-2"]], (("plain",), ("s", "x"))),
    ],
)
def test_clustering_columns_are_logical_paths(columns, expected):
    text = json.dumps({"clusteringColumns": columns, "domainName": "delta.clustering"})
    assert declared.clustering_columns(NESTED, text) == expected


@pytest.mark.parametrize("text", ["", "[]", '{"clusteringColumns": [["gone"]]}'])
def test_a_clustering_that_cannot_be_read_is_refused(text):
    with pytest.raises(ValueError, match=r"is malformed|gone"):
        declared.clustering_columns(NESTED, text)
