"""Rules of Iceberg compatibility, versions 1 to 3 (PROTOCOL.md, Iceberg Compatibility V1 and V2).

A table that follows these rules can be converted to Iceberg's metadata without rewriting data
files. Version 3 is described in `protocol_rfcs/iceberg-compat-v3.md` of Delta Lake.

`with_required_properties` sets the properties that a version requires, `check_iceberg_compat`
checks a commit's protocol and metadata, and `check_add` checks a file of a commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from bayou.errors import IcebergCompatError, PredicateError
from bayou.kernel.expressions.model import Literal
from bayou.kernel.expressions.sql.parser import parse_expression
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.protocol import features, properties
from bayou.protocol.actions import AddFile, Metadata, Protocol
from bayou.protocol.column_metadata import column_defaults
from bayou.protocol.schema import (
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    GeographyType,
    GeometryType,
    MapType,
    StructType,
    nested_types,
)
from bayou.protocol.type_widening import is_iceberg_promotion, is_widening, type_changes

COMPAT_VERSION_TAG: Final = "ICEBERG_COMPAT_VERSION"
"""Tag of `add` actions: the version of Iceberg compatibility that the file's writer followed.

Files of version 1 don't have the tag.
"""

ROW_ID_FIELD_ID: Final = 2147483540
"""Parquet field id of materialized row ids, since version 3 of Iceberg compatibility.

Iceberg's name of the column is `_row_id`.
"""

ROW_COMMIT_VERSION_FIELD_ID: Final = 2147483539
"""Parquet field id of materialized row commit versions, since version 3 of Iceberg compatibility.

Iceberg's name of the column is `_last_updated_sequence_number`.
"""

_PROPERTIES: Final = {
    1: properties.ICEBERG_COMPAT_V1,
    2: properties.ICEBERG_COMPAT_V2,
    3: properties.ICEBERG_COMPAT_V3,
}
LATEST_VERSION: Final = max(_PROPERTIES)

_VIOLATION: Final = "DELTA_ICEBERG_COMPAT_VIOLATION"
_FORMAT_VIOLATION: Final = "DELTA_UNIVERSAL_FORMAT_VIOLATION"


def iceberg_compat_version(configuration: Mapping[str, str]) -> int | None:
    """Return the enabled version of Iceberg compatibility, 1 to 3; None if none is enabled."""
    return next(iter(_enabled_versions(configuration)), None)


def compat_property(version: int) -> str:
    """Return the key of the table property that enables a version of Iceberg compatibility."""
    return _PROPERTIES[version].key


def universal_formats(configuration: Mapping[str, str]) -> tuple[str, ...]:
    """Return the formats in `delta.universalFormat.enabledFormats`, such as `iceberg`."""
    return properties.UNIVERSAL_FORMATS.read(configuration)


def has_nested_field_ids(configuration: Mapping[str, str]) -> bool:
    """Whether array elements, map keys and map values have field ids in a table's data files.

    Args:
        configuration: the table properties.
    """
    return (iceberg_compat_version(configuration) or 0) >= 2


def row_tracking_field_ids(configuration: Mapping[str, str]) -> tuple[int, int] | None:
    """Return the field ids of the two columns that store row ids and row commit versions.

    Returns:
        The field id of row ids and the field id of row commit versions. None if version 3 of
        Iceberg compatibility isn't enabled; the two columns then have no field ids.
    """
    if (iceberg_compat_version(configuration) or 0) < 3:
        return None
    return ROW_ID_FIELD_ID, ROW_COMMIT_VERSION_FIELD_ID


def with_required_properties(
    table: str,
    before: Mapping[str, str] | None,
    after: Mapping[str, str],
    *,
    replaces: bool = False,
) -> dict[str, str]:
    """Return `after` with the properties that Iceberg compatibility requires.

    Column mapping is enabled only in new and replaced tables. Row tracking, which version 3 of
    Iceberg compatibility requires, is enabled in all tables. If Iceberg compatibility is being
    disabled, `iceberg` is removed from `delta.universalFormat.enabledFormats`.

    Args:
        before: the table's properties before the change; None for a new table.
        after: the table's properties after the change, as requested by the user.
        replaces: whether the table is replaced.

    Raises:
        IcebergCompatError: a required property has another value in `after`, or can't be set
            automatically.
    """
    version = iceberg_compat_version(after)
    result = dict(after)
    if version is None:
        if iceberg_compat_version(before or {}) is not None:
            _disable_universal_format(result)
        return result
    mode = properties.COLUMN_MAPPING_MODE
    if after.get(mode.key, "none").strip().lower() == "none":
        if mode.key in after or not (before is None or replaces):
            raise _wrong_property(table, version, mode.key, "name", after.get(mode.key, "none"))
        result[mode.key] = "name"
    tracking = properties.ROW_TRACKING
    if version >= 3 and after.get(tracking.key, "").strip().lower() != "true":
        if tracking.key in after:
            raise _wrong_property(table, version, tracking.key, "true", after[tracking.key])
        result[tracking.key] = "true"
    return result


def check_iceberg_compat(
    table: str,
    state: TableState | None,
    *,
    protocol: Protocol,
    metadata: Metadata,
    schema: StructType,
    operation: Operation,
) -> None:
    """Check that protocol and metadata after a commit follow the rules of Iceberg compatibility.

    The table properties say which version of Iceberg compatibility applies.

    Raises:
        IcebergCompatError: the protocol or the metadata violates a rule.
    """
    configuration = metadata.configuration
    before = {} if state is None else state.properties
    version = iceberg_compat_version(configuration)
    if (iceberg_compat_version(before) or 0) >= 3 and (version or 0) < 3:
        raise IcebergCompatError(
            f"{table}: IcebergCompatV3 can't be disabled. Create a new table without it.",
            table=table,
            version=3,
            condition=None,
        )
    if version is None:
        _check_universal_format(table, configuration, operation)
        return
    change = _Change(
        table=table,
        version=version,
        state=state,
        protocol=protocol,
        metadata=metadata,
        schema=schema,
        operation=operation,
    )
    if with_required_properties(table, configuration, configuration) != configuration:
        raise _wrong_property(table, version, properties.ROW_TRACKING.key, "true", "not set")
    for check in (*_CHECKS, *(_CHECKS_OF_V3 if version >= 3 else _CHECKS_BEFORE_V3)):
        check(change)


def check_add(table: str, version: int, add: AddFile, num_records: int | None) -> None:
    """Check a file that a commit adds to a table with Iceberg compatibility `version`.

    Args:
        num_records: `numRecords` in the file's statistics.

    Raises:
        IcebergCompatError: the file has no `numRecords`, or it has a deletion vector and `version`
            is below 3.
    """
    if num_records is None:
        raise IcebergCompatError(
            f"{table}: IcebergCompatV{version} requires the statistic numRecords of each file, and "
            f"file {add.path} has none. Rewrite the file, for example with OPTIMIZE.",
            table=table,
            version=version,
            condition=None,
        )
    if version < 3 and add.deletion_vector is not None:
        raise deletion_vectors_not_purged(table, version, add.path)


def deletion_vectors_not_purged(table: str, version: int, path: str) -> IcebergCompatError:
    """Return the error for a file with a deletion vector.

    Versions 1 and 2 of Iceberg compatibility don't allow deletion vectors.
    """
    return _error(
        table,
        version,
        "DELETION_VECTORS_NOT_PURGED",
        f"doesn't allow deletion vectors, and file {path} has one. Run REORG TABLE ... APPLY "
        "(PURGE) first.",
    )


def version_not_supported(table: str, version: int) -> IcebergCompatError:
    """Return the error for a version of Iceberg compatibility that doesn't exist."""
    return IcebergCompatError(
        f"{table}: Iceberg compatibility version {version} doesn't exist. Use 1 to "
        f"{LATEST_VERSION}.",
        table=table,
        version=version,
        condition=f"{_VIOLATION}.COMPAT_VERSION_NOT_SUPPORTED",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """Protocol and metadata after a commit, and the table state before the commit."""

    table: str
    version: int
    state: TableState | None
    protocol: Protocol
    metadata: Metadata
    schema: StructType
    operation: Operation

    @property
    def is_upgrade(self) -> bool:
        """Whether the commit is a REORG TABLE ... APPLY (UPGRADE UNIFORM ...)."""
        return self.operation is Operation.UPGRADE_UNIFORM

    @property
    def enables(self) -> bool:
        """Whether the commit enables Iceberg compatibility `version`, which was disabled before."""
        before = {} if self.state is None else self.state.properties
        return iceberg_compat_version(before) != self.version

    def error(self, rule: str, problem: str) -> IcebergCompatError:
        return _error(self.table, self.version, rule, problem)


def _check_only_version(change: _Change) -> None:
    enabled = list(_enabled_versions(change.metadata.configuration))
    if len(enabled) > 1:
        keys = ", ".join(compat_property(version) for version in enabled)
        raise change.error(
            "VERSION_MUTUAL_EXCLUSIVE",
            f"can't be enabled together with another version: {keys} are true. Set all but one of "
            "them to false.",
        )


def _check_partitioning(change: _Change) -> None:
    before = () if change.state is None else change.state.partition_columns
    after = tuple(change.metadata.partition_columns)
    if before and before != after:
        raise change.error(
            "REPLACE_TABLE_CHANGE_PARTITION_NAMES",
            "doesn't allow replacing the partition columns: the table is partitioned by "
            f"({', '.join(before)}), and would be partitioned by ({', '.join(after)}). Use the "
            "table's partition columns, or create a new table.",
        )


def _check_types(change: _Change) -> None:
    for path, data_type, _ in nested_types(change.schema):
        if not _allows(change.version, data_type):
            raise change.error(
                "UNSUPPORTED_DATA_TYPE",
                f"doesn't support the type {_type_name(data_type)} of column {'.'.join(path)!r}. "
                f"{_TYPE_HINTS.get(change.version, 'Use another type.')}",
            )


def _check_type_changes(change: _Change) -> None:
    supported = {features.TYPE_WIDENING, features.TYPE_WIDENING_PREVIEW}
    if supported.isdisjoint(features.all_features(change.protocol)):
        return
    for path, before, after in type_changes(change.schema):
        if is_widening(before, after) and not is_iceberg_promotion(before, after):
            raise change.error(
                "UNSUPPORTED_TYPE_WIDENING",
                f"doesn't allow the type change of column {path!r} from {before} to {after}, "
                "because Iceberg can't read the column's older files. Create a new table with the "
                "new type.",
            )


def _check_deletion_vectors(change: _Change) -> None:
    states = [(change.protocol, change.metadata.configuration)]
    if change.state is not None and not change.is_upgrade:
        states.append((change.state.protocol, dict(change.state.properties)))
    if any(_writes_deletion_vectors(*state) for state in states):
        raise change.error(
            "DELETION_VECTORS_SHOULD_BE_DISABLED",
            "doesn't allow deletion vectors. Set delta.enableDeletionVectors = false in a "
            "separate statement, then run REORG TABLE ... APPLY (PURGE).",
        )
    if (
        change.version == 1
        and change.enables
        and features.DELETION_VECTORS in features.all_features(change.protocol)
    ):
        raise change.error(
            "INCOMPATIBLE_TABLE_FEATURE",
            "doesn't allow the table feature deletionVectors. Drop the feature, or use version 2.",
        )


def _check_defaults(change: _Change) -> None:
    for name, sql in column_defaults(change.schema).items():
        if not _is_literal(sql):
            raise change.error(
                "UNSUPPORTED_DATA_TYPE",
                f"requires that column defaults are literals, and the default of column {name!r} "
                f"is {sql}. Drop the default, or use a literal.",
            )


def _check_row_tracking_before(change: _Change) -> None:
    state = change.state
    if (
        state is not None
        and change.enables
        and change.operation is Operation.SET_TABLE_PROPERTIES
        and properties.ROW_TRACKING.read(state.properties)
    ):
        raise IcebergCompatError(
            f"{change.table}: IcebergCompatV3 can't be enabled by SET TBLPROPERTIES while row "
            "tracking is enabled, because the row ids in existing files have no field ids. Run "
            "REORG TABLE ... APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 3)).",
            table=change.table,
            version=change.version,
            condition=None,
        )


_CHECKS: tuple[Callable[[_Change], None], ...] = (
    _check_only_version,
    _check_types,
    _check_partitioning,
    _check_type_changes,
)
_CHECKS_BEFORE_V3: tuple[Callable[[_Change], None], ...] = (_check_deletion_vectors,)
_CHECKS_OF_V3: tuple[Callable[[_Change], None], ...] = (
    _check_defaults,
    _check_row_tracking_before,
)
_TYPE_HINTS = {
    1: "Use version 2 for arrays and maps, or another type.",
    2: "Use version 3 for variants and geometries, or another type.",
}


def _check_universal_format(
    table: str, configuration: Mapping[str, str], operation: Operation
) -> None:
    if operation in (Operation.VACUUM_START, Operation.VACUUM_END):
        return
    if "iceberg" in universal_formats(configuration):
        raise IcebergCompatError(
            f"{table}: {properties.UNIVERSAL_FORMATS.key} contains iceberg, which requires "
            f"IcebergCompat. Also set {compat_property(2)} = true.",
            table=table,
            version=None,
            condition=_FORMAT_VIOLATION,
        )


def _disable_universal_format(configuration: dict[str, str]) -> None:
    key = properties.UNIVERSAL_FORMATS.key
    formats = [each for each in universal_formats(configuration) if each != "iceberg"]
    if formats:
        configuration[key] = ",".join(formats)
    else:
        configuration.pop(key, None)


def _enabled_versions(configuration: Mapping[str, str]) -> Iterator[int]:
    for version, table_property in _PROPERTIES.items():
        if configuration.get(table_property.key, "").strip().lower() == "true":
            yield version


def _allows(version: int, data_type: DataType) -> bool:
    if data_type == VOID:
        return False
    if version == 1 and isinstance(data_type, ArrayType | MapType):
        return False
    return version >= 3 or not (
        data_type == VARIANT or isinstance(data_type, GeometryType | GeographyType)
    )


def _type_name(data_type: DataType) -> str:
    match data_type:
        case ArrayType():
            return "array"
        case MapType():
            return "map"
        case _:
            return str(data_type)


def _writes_deletion_vectors(protocol: Protocol, configuration: Mapping[str, str]) -> bool:
    supported = features.DELETION_VECTORS in features.all_features(protocol)
    return supported and properties.DELETION_VECTORS.read(configuration)


def _is_literal(sql: str) -> bool:
    try:
        return isinstance(parse_expression(sql), Literal)
    except PredicateError:
        return False


def _wrong_property(
    table: str, version: int, key: str, required: str, actual: str
) -> IcebergCompatError:
    return _error(
        table,
        version,
        "WRONG_REQUIRED_TABLE_PROPERTY",
        f"requires {key} = {required}, but it is {actual}. Set {key} = {required}.",
    )


def _error(table: str, version: int, rule: str, problem: str) -> IcebergCompatError:
    return IcebergCompatError(
        f"{table}: IcebergCompatV{version} {problem}",
        table=table,
        version=version,
        condition=f"{_VIOLATION}.{rule}",
    )
