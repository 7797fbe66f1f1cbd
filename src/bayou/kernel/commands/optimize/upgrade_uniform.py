"""REORG ... APPLY (UPGRADE UNIFORM ...): make an existing table readable as an Iceberg table.

Like delta-spark, the command makes these commits:

1. Enable the Iceberg compatibility version, for example with `delta.enableIcebergCompatV2`.
2. Rewrite the data files that don't meet this version's requirements.
3. Add `iceberg` to the table property `delta.universalFormat.enabledFormats`.

If the command fails, run it again: it skips the steps that are already committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from bayou.errors import IcebergCompatError
from bayou.kernel.commands.alter.alteration import Alteration, as_json
from bayou.kernel.commands.alter.properties import set_properties
from bayou.kernel.commands.alter.row_tracking import enable_row_tracking
from bayou.kernel.commands.optimize.metrics import OptimizeMetrics
from bayou.kernel.commands.optimize.purge import plan_reorg
from bayou.kernel.commands.optimize.rewrite_execution import RewritePlan
from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.table_features.iceberg_compat import (
    COMPAT_VERSION_TAG,
    LATEST_VERSION,
    compat_property,
    iceberg_compat_version,
    universal_formats,
    version_not_supported,
)
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.protocol import properties

_MAX_REWRITES = 5
"""Maximum number of rewrites; files of concurrent writers can make a repeated rewrite necessary."""

RunPlan = Callable[[RewritePlan], OptimizeMetrics]
"""Function that runs and commits a plan."""


def upgrade_uniform(
    engine: Engine,
    state: TableState,
    version: int,
    run_plan: RunPlan,
    *,
    engine_info: str,
    target_bytes: int | None = None,
) -> OptimizeMetrics:
    """Enable IcebergCompatV1, V2 or V3; add `iceberg` to the table's universal formats.

    For IcebergCompatV1 and V2, the command disables deletion vectors. For IcebergCompatV3, the
    command enables row tracking. For IcebergCompatV1, no files are rewritten, as in delta-spark.

    Args:
        version: the Iceberg compatibility version: 1, 2 or 3.
        target_bytes: maximum size of a rewritten file. If None, this is the table's target file
            size.

    Returns:
        The metrics of the rewrite. Their attribute `version` is the version of the Delta table
        after the whole command.

    Raises:
        IcebergCompatError: the table violates a rule of this Iceberg compatibility version.
    """
    if type(version) is not int or not 1 <= version <= LATEST_VERSION:
        raise version_not_supported(state.path, version)
    state = _enable_version(engine, state, version, engine_info)
    metrics = _rewrite(
        engine, state, version, run_plan, engine_info=engine_info, target_bytes=target_bytes
    )
    state = load_table_state(engine, state.path, catalog=state.catalog)
    formats = universal_formats(state.properties)
    if "iceberg" not in formats:
        enabled = set_properties(engine, state, _with_iceberg(formats), engine_info=engine_info)
        return replace(metrics, version=enabled.version)
    return replace(metrics, version=state.version)


def plan_upgrade(
    engine: Engine,
    state: TableState,
    version: int,
    engine_info: str,
    *,
    target_bytes: int | None = None,
) -> RewritePlan:
    """Plan the rewrite of all files whose tag `ICEBERG_COMPAT_VERSION` isn't `version`.

    Args:
        version: the Iceberg compatibility version.
        target_bytes: maximum size of a rewritten file. If None, this is the table's target file
            size.
    """

    def select(files: Sequence[ScanFile], _row_tracking: frozenset[str]) -> Iterator[ScanFile]:
        tag = str(version)
        return (f for f in files if (f.add.tags or {}).get(COMPAT_VERSION_TAG) != tag)

    return plan_reorg(
        engine, state, engine_info, purges=False, target_bytes=target_bytes, select=select
    )


def _enable_version(
    engine: Engine, state: TableState, version: int, engine_info: str
) -> TableState:
    """Enable an Iceberg compatibility version: 1, 2 or 3; return the table's new state."""
    current = iceberg_compat_version(state.properties)
    requested = {compat_property(version): "true"}
    if current == version:
        _check_format(engine, state, requested, engine_info)
        return state
    if current is not None:
        requested[compat_property(current)] = "false"
    if state.column_mapping == "none":
        requested[properties.COLUMN_MAPPING_MODE.key] = "name"
    if version >= 3:
        requested[properties.ROW_TRACKING.key] = "true"
    else:
        requested[properties.DELETION_VECTORS.key] = "false"
    _check_format(engine, state, requested, engine_info)
    if version >= 3 and not state.table_properties.row_tracking:
        state, _ = enable_row_tracking(engine, state, engine_info=engine_info)
    upgrade = _upgrade(engine, state, requested, engine_info)
    upgrade.commit(lambda builder: _with_properties(builder, requested))
    return load_table_state(engine, state.path, catalog=state.catalog)


def _check_format(
    engine: Engine, state: TableState, requested: Mapping[str, str], engine_info: str
) -> None:
    """Before the first commit, check all properties that the command will set."""
    after = {**requested, **_with_iceberg(universal_formats(state.properties))}
    _upgrade(engine, state, after, engine_info).check(
        lambda builder: _with_properties(builder, after)
    )


def _with_properties(
    builder: TransactionBuilder, requested: Mapping[str, str]
) -> TransactionBuilder:
    return builder.with_table_properties(requested).with_files_checked()


def _upgrade(
    engine: Engine, state: TableState, requested: Mapping[str, str], engine_info: str
) -> Alteration:
    return Alteration(
        engine=engine,
        state=state,
        engine_info=engine_info,
        operation=Operation.UPGRADE_UNIFORM,
        parameters={"properties": as_json(dict(requested))},
    )


def _rewrite(
    engine: Engine,
    state: TableState,
    version: int,
    run_plan: RunPlan,
    *,
    engine_info: str,
    target_bytes: int | None,
) -> OptimizeMetrics:
    """Rewrite files until the tag `ICEBERG_COMPAT_VERSION` of all files is `version`.

    Returns the metrics of the first rewrite. Later rewrites include only files that other writers
    have added since the first rewrite.
    """
    first: OptimizeMetrics | None = None
    for _ in range(_MAX_REWRITES):
        plan = plan_upgrade(engine, state, version, engine_info, target_bytes=target_bytes)
        if version < 2:
            plan = replace(plan, items=())
        metrics = run_plan(plan)
        first = first or metrics
        if not plan.items:
            return first
        state = load_table_state(engine, state.path, catalog=state.catalog)
    raise IcebergCompatError(
        f"{state.path}: concurrent writers added files that IcebergCompatV{version} doesn't "
        "allow. Stop these writers, and run REORG TABLE ... APPLY (UPGRADE UNIFORM "
        f"(ICEBERG_COMPAT_VERSION = {version})) again.",
        table=state.path,
        version=version,
        condition="DELTA_ICEBERG_COMPAT_VIOLATION.FILES_NOT_ICEBERG_COMPAT",
    )


def _with_iceberg(formats: tuple[str, ...]) -> dict[str, str]:
    names = formats if "iceberg" in formats else (*formats, "iceberg")
    return {properties.UNIVERSAL_FORMATS.key: ",".join(names)}
