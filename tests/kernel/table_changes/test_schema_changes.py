import json

import pytest

from bayou.kernel.table_changes.schema_changes import (
    changes_between,
    read_problem,
    same_metadata,
    same_protocol,
)
from bayou.protocol.actions import Metadata, Protocol

MAPPED = {"delta.columnMapping.mode": "name"}


def meta(columns, partitions=(), mapped=False, **properties):
    """Columns as name to type, or to (type, physical name)."""
    fields = []
    for name, kind in columns.items():
        data_type, physical = kind if isinstance(kind, tuple) else (kind, name)
        names = {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": 1}
        fields.append(
            {"name": name, "type": data_type, "nullable": True, "metadata": names if mapped else {}}
        )
    return Metadata(
        id="t",
        schema_string=json.dumps({"type": "struct", "fields": fields}),
        partition_columns=list(partitions),
        configuration={**(MAPPED if mapped else {}), **properties},
    )


def test_an_added_column_takes_nothing_away():
    old, new = meta({"a": "long"}), meta({"a": "long", "b": "string"})
    assert not changes_between("t", old, new)
    assert read_problem("t", old, new) is None
    assert "dropped" in read_problem("t", new, old)


def test_renames_and_drops_are_told_by_physical_names():
    old = meta({"a": ("long", "x"), "b": ("long", "y"), "c": "long"}, mapped=True)
    new = meta({"A": ("long", "x"), "b": ("long", "z"), "c": "long"}, mapped=True)
    change = changes_between("t", old, new)
    assert change.renamed == ("'a' -> 'A'",)
    assert change.dropped == ("'b'",)


def test_turning_the_mapping_on_changes_nothing_and_off_does():
    plain, mapped = meta({"a": "long"}), meta({"a": "long"}, mapped=True)
    assert not changes_between("t", plain, mapped)
    assert changes_between("t", mapped, plain).other == "column mapping was disabled"


def test_a_wider_type_reads_narrower_rows_only_where_that_is_asked_for():
    old, new = meta({"a": "integer"}), meta({"a": "long"})
    assert changes_between("t", old, new).widened == ("'a': integer -> long",)
    assert read_problem("t", old, new, widens=True) is None
    assert "type" in read_problem("t", old, new)


def test_other_partition_columns_are_a_problem():
    old, new = meta({"a": "long", "b": "long"}, ["a"]), meta({"a": "long", "b": "long"}, ["b"])
    assert "partition columns" in read_problem("t", old, new)


@pytest.mark.parametrize(
    ("properties", "same"), [({"delta.appendOnly": "true"}, False), ({"mine": "1"}, True)]
)
def test_only_deltas_own_properties_make_another_metadata(properties, same):
    assert same_metadata(meta({"a": "long"}), meta({"a": "long"}, **properties)) is same


def test_the_order_of_features_makes_no_other_protocol():
    def protocol(*features):
        return Protocol(
            min_reader_version=3,
            min_writer_version=7,
            reader_features=list(features),
            writer_features=list(features),
        )

    assert same_protocol(protocol("x", "y"), protocol("y", "x"))
    assert not same_protocol(protocol("x"), protocol("x", "y"))
