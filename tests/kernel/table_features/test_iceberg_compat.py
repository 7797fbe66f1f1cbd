"""The rules of Iceberg compatibility hold for new tables, changes and files."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import IcebergCompatError
from bayou.kernel import Operation, Table
from bayou.kernel.table_features.iceberg_compat import iceberg_compat_version
from bayou.protocol.schema import VOID, StructField, StructType

ROWS = pa.table({"part": ["a", "b"], "id": [1, 2]})
NESTED = pa.table(
    {
        "id": pa.array([1, 2]),
        "a": pa.array([[[1], None], []], pa.list_(pa.list_(pa.int32()))),
        "m": pa.array(
            [[("k", [{"x": [1]}])], None],
            pa.map_(pa.string(), pa.list_(pa.struct([("x", pa.list_(pa.int64()))]))),
        ),
    }
)
VERSIONS = (1, 2, 3)


def compat(version: int, value: str = "true") -> dict[str, str]:
    return {f"delta.enableIcebergCompatV{version}": value}


def violates(rule: str | None, action: Any, *arguments: Any, **named: Any) -> IcebergCompatError:
    with pytest.raises(IcebergCompatError) as caught:
        action(*arguments, **named)
    name = None if rule is None else f"DELTA_ICEBERG_COMPAT_VIOLATION.{rule}"
    assert caught.value.condition == name
    return caught.value


def footers(path: str) -> dict[str, pq.ParquetFile]:
    return {
        str(p): pq.ParquetFile(p) for p in Path(path).rglob("*.parquet") if "_delta" not in str(p)
    }


def adds(path: str) -> list[dict[str, Any]]:
    commits = sorted((Path(path) / "_delta_log").glob("*.json"))
    lines = [line for commit in commits for line in commit.read_bytes().splitlines()]
    return [action["add"] for action in map(msgspec.json.decode, lines) if "add" in action]


def properties(path: str) -> dict[str, str]:
    return dict(bayou.table(path).snapshot().properties)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_new_table_gets_what_its_version_requires(path: str, version: int) -> None:
    bayou.write(path, ROWS, configuration=compat(version), partition_by=["part"])
    snapshot = bayou.table(path).snapshot()
    assert snapshot.properties["delta.columnMapping.mode"] == "name"
    features = set(snapshot.protocol.writer_features)
    assert {f"icebergCompatV{version}", "columnMapping"} <= features
    assert ("rowTracking" in features) == (version == 3)
    assert (snapshot.properties.get("delta.enableRowTracking") == "true") == (version == 3)
    for add in adds(path):
        assert msgspec.json.decode(add["stats"])["numRecords"] == 1
        expected = {"ICEBERG_COMPAT_VERSION": str(version)} if version > 1 else None
        assert add.get("tags") == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_files_contain_partition_columns_after_the_others(path: str, version: int) -> None:
    bayou.write(path, ROWS, configuration=compat(version), partition_by=["part"])
    schema = bayou.table(path).snapshot().kernel.schema
    names = [field.metadata["delta.columnMapping.physicalName"] for field in schema]
    assert len(footers(path)) == 2
    for footer in footers(path).values():
        assert footer.schema_arrow.names == [names[1], names[0]]
        assert footer.read().column(0).to_pylist() in ([1], [2])
        assert footer.read().column(1).to_pylist() in (["a"], ["b"])
    assert bayou.table(path).to_arrow().sort_by("id") == ROWS


@pytest.mark.parametrize("version", [2, 3])
def test_elements_keys_and_values_have_the_schemas_ids_in_files(path: str, version: int) -> None:
    bayou.write(path, NESTED, configuration=compat(version))
    schema = bayou.table(path).snapshot().kernel.schema
    ids: list[int] = []
    (footer,) = footers(path).values()
    for field, stored in zip(schema, footer.schema_arrow, strict=True):
        nested = field.metadata.get("delta.columnMapping.nested.ids", {})
        ids += [field.metadata["delta.columnMapping.id"], *nested.values()]
        assert stored.metadata[b"PARQUET:field_id"] == str(ids[0 - 1 - len(nested)]).encode()
    array, mapping = schema.get("a"), schema.get("m")
    assert array is not None
    assert mapping is not None
    name = array.metadata["delta.columnMapping.physicalName"]
    nested_ids = array.metadata["delta.columnMapping.nested.ids"]
    assert set(nested_ids) == {f"{name}.element", f"{name}.element.element"}
    element = footer.schema_arrow.field(1).type.value_field
    assert element.metadata[b"PARQUET:field_id"] == str(nested_ids[f"{name}.element"]).encode()
    name = mapping.metadata["delta.columnMapping.physicalName"]
    keys = mapping.metadata["delta.columnMapping.nested.ids"]
    assert set(keys) == {f"{name}.key", f"{name}.value", f"{name}.value.element"}
    stored_map = footer.schema_arrow.field(2).type
    assert stored_map.key_field.metadata[b"PARQUET:field_id"] == str(keys[f"{name}.key"]).encode()
    assert len(ids) == len(set(ids))
    assert int(properties(path)["delta.columnMapping.maxColumnId"]) == max(ids) + 2
    assert bayou.table(path).to_arrow() == NESTED


def test_new_nested_columns_get_new_ids_and_old_ones_keep_theirs(path: str) -> None:
    bayou.write(path, NESTED, configuration=compat(2))
    before = bayou.table(path).snapshot().kernel.schema
    more = NESTED.append_column("z", pa.array([[1], None], pa.list_(pa.int8())))
    bayou.write(path, more, schema_mode="merge")
    bayou.table(path).alter.rename_column("a", "b")
    after = bayou.table(path).snapshot().kernel.schema
    assert [f.metadata for f in after][:3] == [f.metadata for f in before]
    added = after.get("z")
    assert added is not None
    (nested_id,) = added.metadata["delta.columnMapping.nested.ids"].values()
    assert nested_id == int(properties(path)["delta.columnMapping.maxColumnId"])
    assert bayou.table(path).to_arrow().num_rows == 4


def test_an_existing_table_is_enabled_with_column_mapping_only(path: str) -> None:
    bayou.write(path, NESTED)
    alter = bayou.table(path).alter
    error = violates("WRONG_REQUIRED_TABLE_PROPERTY", alter.set_table_properties, compat(2))
    assert "delta.columnMapping.mode = name" in error.message
    assert bayou.table(path).snapshot().version == 0
    alter.set_table_properties({**compat(2), "delta.columnMapping.mode": "name"})
    field = bayou.table(path).snapshot().kernel.schema.get("a")
    assert field is not None
    assert set(field.metadata["delta.columnMapping.nested.ids"]) == {
        "a.element",
        "a.element.element",
    }
    bayou.write(path, NESTED)
    assert bayou.table(path).to_arrow().num_rows == 4


def test_version_3_enables_row_tracking_of_an_existing_table(path: str) -> None:
    bayou.write(path, ROWS, configuration={"delta.columnMapping.mode": "name"})
    bayou.table(path).alter.set_table_properties(compat(3))
    assert properties(path)["delta.enableRowTracking"] == "true"
    live = bayou.table(path).snapshot().kernel
    rows = bayou.table(path).to_arrow(columns=["id", "_metadata.row_id"])
    assert sorted(rows.column(1).to_pylist()) == [0, 1]
    assert iceberg_compat_version(live.properties) == 3


def test_a_failed_upgrade_to_version_3_changes_nothing(path: str) -> None:
    bayou.write(path, ROWS)
    alter = bayou.table(path).alter
    violates("WRONG_REQUIRED_TABLE_PROPERTY", alter.set_table_properties, compat(3))
    off = {**compat(3), "delta.columnMapping.mode": "name", "delta.enableRowTracking": "false"}
    violates("WRONG_REQUIRED_TABLE_PROPERTY", alter.set_table_properties, off)
    assert bayou.table(path).snapshot().version == 0


def test_materialized_row_ids_have_icebergs_field_ids(path: str) -> None:
    bayou.write(path, ROWS, configuration={**compat(3), "delta.enableDeletionVectors": "true"})
    bayou.write(path, ROWS)
    bayou.table(path).update({"id": "id + 10"}, predicate="id = 1")
    bayou.table(path).optimize.compact()
    ids = bayou.table(path).to_arrow(columns=["id", "_metadata.row_id"])
    found = set()
    for footer in footers(path).values():
        for field in footer.schema_arrow:
            if field.name.startswith("_row-"):
                found.add((field.name.split("-col-")[0], field.metadata[b"PARQUET:field_id"]))
    assert found == {("_row-id", b"2147483540"), ("_row-commit-version", b"2147483539")}
    assert sorted(ids.column(1).to_pylist()) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("version", "column"),
    [
        (1, pa.array([[1]], pa.list_(pa.int64()))),
        (1, pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))),
        (1, pa.array([{"a": [1]}])),
    ],
)
def test_a_type_that_the_version_lacks_is_refused(path: str, version: int, column: Any) -> None:
    data = pa.table({"c": column})
    violates("UNSUPPORTED_DATA_TYPE", bayou.write, path, data, configuration=compat(version))
    assert not Path(path).exists()
    bayou.write(path, pa.table({"id": [1]}), configuration=compat(version))
    error = violates("UNSUPPORTED_DATA_TYPE", bayou.write, path, data, schema_mode="merge")
    assert "'c" in error.message


@pytest.mark.parametrize("version", VERSIONS)
def test_void_is_refused_and_variant_needs_version_3(path: str, version: int) -> None:
    void = StructType((StructField(name="n", data_type=VOID),))
    violates("UNSUPPORTED_DATA_TYPE", bayou.create, path, void, configuration=compat(version))
    variant = {"id": "bigint", "v": "variant"}
    if version == 3:
        bayou.create(path, variant, configuration=compat(version))
        assert properties(path)["delta.enableIcebergCompatV3"] == "true"
    else:
        violates(
            "UNSUPPORTED_DATA_TYPE", bayou.create, path, variant, configuration=compat(version)
        )


@pytest.mark.parametrize("version", VERSIONS)
def test_all_primitive_types_can_partition_a_table(path: str, version: int) -> None:
    values = {
        "i": pa.array([1], pa.int32()),
        "d": pa.array([Decimal("1.50")], pa.decimal128(5, 2)),
        "day": pa.array([dt.date(2024, 1, 2)]),
        "ts": pa.array([dt.datetime(2024, 1, 2, 3, tzinfo=dt.UTC)], pa.timestamp("us", "UTC")),
    }
    data = pa.table({"id": [1], **values})
    bayou.write(path, data, configuration=compat(version), partition_by=list(values))
    assert bayou.table(path).to_arrow() == data
    (footer,) = footers(path).values()
    assert footer.schema_arrow.field(4).type == pa.timestamp("us", "UTC")
    assert footer.schema.column(4).physical_type == "INT64"


@pytest.mark.parametrize("version", [1, 2])
def test_deletion_vectors_are_disabled_and_purged_first(path: str, version: int) -> None:
    on = {"delta.enableDeletionVectors": "true"}
    error = violates(
        "DELETION_VECTORS_SHOULD_BE_DISABLED",
        bayou.write, path, ROWS, configuration={**compat(version), **on},
    )  # fmt: skip
    assert "delta.enableDeletionVectors = false" in error.message
    bayou.write(path, ROWS, configuration={**on, "delta.columnMapping.mode": "name"})
    table = bayou.table(path)
    table.delete("id = 1")
    off = {"delta.enableDeletionVectors": "false"}
    alter = table.alter.set_table_properties
    violates("DELETION_VECTORS_SHOULD_BE_DISABLED", alter, {**compat(version), **off})
    alter(off)
    if version == 1:
        violates("INCOMPATIBLE_TABLE_FEATURE", alter, compat(1))
        return
    violates("DELETION_VECTORS_NOT_PURGED", alter, compat(2))
    table.optimize.purge()
    alter(compat(2))
    violates("DELETION_VECTORS_SHOULD_BE_DISABLED", alter, on)
    table.delete("id = 2")
    assert table.to_arrow().num_rows == 0


def test_version_3_allows_deletion_vectors(path: str) -> None:
    on = {"delta.enableDeletionVectors": "true"}
    bayou.write(path, ROWS, configuration={**compat(3), **on})
    bayou.table(path).delete("id = 1")
    assert any(add.get("deletionVector") for add in adds(path))
    assert bayou.table(path).to_arrow().column("id").to_pylist() == [2]


def test_only_one_version_is_enabled(path: str) -> None:
    both = {**compat(1), **compat(2)}
    violates("VERSION_MUTUAL_EXCLUSIVE", bayou.write, path, ROWS, configuration=both)
    bayou.write(path, ROWS, configuration=compat(1))
    alter = bayou.table(path).alter.set_table_properties
    violates("VERSION_MUTUAL_EXCLUSIVE", alter, compat(2))
    alter({**compat(1, "false"), **compat(2)})
    assert iceberg_compat_version(properties(path)) == 2


@pytest.mark.parametrize("version", VERSIONS)
def test_partition_columns_are_not_replaced_by_others(path: str, version: int) -> None:
    bayou.write(path, ROWS, configuration=compat(version), partition_by=["part"])
    for columns in (["id"], []):
        violates(
            "REPLACE_TABLE_CHANGE_PARTITION_NAMES",
            bayou.write, path, ROWS, mode="overwrite", schema_mode="overwrite",
            partition_by=columns,
        )  # fmt: skip
    longer = pa.table({"part": [1], "id": ["x"]})
    bayou.write(path, longer, mode="overwrite", schema_mode="overwrite", partition_by=["part"])
    assert bayou.table(path).to_arrow() == longer


def test_a_type_change_that_iceberg_cannot_read_is_refused(path: str) -> None:
    widening = {"delta.enableTypeWidening": "true"}
    data = pa.table({"i": pa.array([1], pa.int32()), "f": pa.array([1.5], pa.float32())})
    bayou.write(path, data, configuration={**compat(2), **widening})
    alter = bayou.table(path).alter
    alter.change_type("i", "bigint")
    alter.change_type("f", "double")
    bayou.write(other := f"{path}-2", data, configuration={**compat(2), **widening})
    change = bayou.table(other).alter.change_type
    error = violates("UNSUPPORTED_TYPE_WIDENING", change, "i", "double")
    assert "'i' from integer to double" in error.message
    bayou.write(
        late := f"{path}-3", data, configuration={**widening, "delta.columnMapping.mode": "name"}
    )
    bayou.table(late).alter.change_type("i", "double")
    violates("UNSUPPORTED_TYPE_WIDENING", bayou.table(late).alter.set_table_properties, compat(2))


def test_defaults_of_version_3_are_literals(path: str) -> None:
    allowed = {"delta.feature.allowColumnDefaults": "supported"}
    bayou.write(path, ROWS, configuration={**compat(3), **allowed})
    alter = bayou.table(path).alter
    alter.set_default("id", "7")
    violates("UNSUPPORTED_DATA_TYPE", alter.set_default, "id", "1 + 1")


def test_version_3_cannot_be_disabled(path: str) -> None:
    bayou.write(path, ROWS, configuration=compat(3))
    table = bayou.table(path)
    violates(None, table.alter.set_table_properties, compat(3, "false"))
    violates(None, table.alter.unset_table_properties, "delta.enableIcebergCompatV3")
    bayou.write(older := f"{path}-2", ROWS, configuration=compat(2))
    bayou.table(older).alter.set_table_properties(compat(2, "false"))
    assert iceberg_compat_version(properties(older)) is None


def test_row_tracking_is_off_before_version_3_is_set(path: str) -> None:
    tracked = {"delta.enableRowTracking": "true", "delta.columnMapping.mode": "name"}
    bayou.write(path, ROWS, configuration=tracked)
    error = violates(None, bayou.table(path).alter.set_table_properties, compat(3))
    assert "UPGRADE UNIFORM" in error.message


def test_features_that_a_version_requires_cannot_be_dropped(path: str) -> None:
    bayou.write(path, ROWS, configuration=compat(3))
    for feature in ("columnMapping", "rowTracking", "icebergCompatV3"):
        with pytest.raises(bayou.errors.BayouError, match="icebergCompatV3"):
            bayou.table(path).alter.drop_feature(feature)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_without_a_row_count_is_refused(path: str, version: int) -> None:
    bayou.write(path, ROWS, configuration=compat(version))
    engine = for_path(path)
    table = Table.for_path(engine, path)
    transaction = table.create_transaction_builder(engine, "test", Operation.WRITE).build(engine)
    with transaction.read_files(engine) as files:
        (add,) = [file.add for file in files]
    without = msgspec.structs.replace(add, path="copy.parquet", stats=None)
    error = violates(None, transaction.commit, engine, [without])
    assert "numRecords" in error.message
    assert "copy.parquet" in error.message
    assert bayou.table(path).snapshot().version == 0


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("shallow", [True, False])
def test_a_clone_has_the_compatibility_of_its_source(
    path: str, version: int, shallow: bool
) -> None:
    data = ROWS if version == 1 else NESTED
    bayou.write(path, data, configuration=compat(version))
    target = f"{path}-clone"
    bayou.table(path).clone(target, shallow=shallow)
    bayou.write(target, data)
    assert bayou.table(target).to_arrow().num_rows == 4
    source, clone = (bayou.table(name).snapshot().kernel for name in (path, target))
    assert source.schema == clone.schema
    assert iceberg_compat_version(clone.properties) == version


def test_a_clone_can_enable_compatibility_if_its_source_has_column_mapping(path: str) -> None:
    bayou.write(path, NESTED)
    clone = bayou.table(path).clone
    violates("WRONG_REQUIRED_TABLE_PROPERTY", clone, f"{path}-1", configuration=compat(2))
    bayou.table(path).alter.set_table_properties({"delta.columnMapping.mode": "name"})
    target = f"{path}-2"
    clone(target, configuration=compat(2))
    field = bayou.table(target).snapshot().kernel.schema.get("a")
    assert field is not None
    assert set(field.metadata["delta.columnMapping.nested.ids"]) == {
        "a.element",
        "a.element.element",
    }


def test_a_restore_follows_the_rules(path: str) -> None:
    bayou.write(path, ROWS, configuration={"delta.columnMapping.mode": "name"})
    bayou.table(path).alter.set_table_properties(compat(2))
    bayou.write(path, ROWS)
    bayou.table(path).restore(0)
    assert iceberg_compat_version(properties(path)) is None
    bayou.table(path).restore(2)
    assert iceberg_compat_version(properties(path)) == 2
    bayou.table(path).alter.set_table_properties({**compat(2, "false"), **compat(3)})
    violates(None, bayou.table(path).restore, 0)


def test_disabling_compatibility_disables_the_iceberg_format(path: str) -> None:
    formats = {"delta.universalFormat.enabledFormats": "iceberg"}
    with pytest.raises(IcebergCompatError, match="enableIcebergCompatV2 = true") as caught:
        bayou.write(path, ROWS, configuration=formats)
    assert caught.value.condition == "DELTA_UNIVERSAL_FORMAT_VIOLATION"
    with pytest.raises(bayou.errors.TablePropertyError, match="iceberg, hudi"):
        bayou.write(path, ROWS, configuration={"delta.universalFormat.enabledFormats": "avro"})
