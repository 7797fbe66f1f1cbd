"""Opens the table that a command's argument names, and checks column names."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bayou.errors import ArgumentError
from bayou.suggestions import did_you_mean

if TYPE_CHECKING:
    from bayou.api import SnapshotHandle, TableHandle


def check_columns(snapshot: SnapshotHandle, names: Sequence[str] | None, option: str) -> None:
    """Check that the table has the columns that the user passed to an option.

    Raises:
        ArgumentError: the table lacks one of the columns.
    """
    known = snapshot.schema.names
    for name in names or ():
        if name not in known and name.split(".")[0] not in known and "_metadata." not in name:
            raise ArgumentError(
                f"{option}: {snapshot.kernel.path} has no column {name!r}."
                f"{did_you_mean(name, known)} Its columns are {', '.join(known)}.",
                argument=option.removeprefix("--"),
            )


def open_table(
    table: str, config: Path | None = None, settings: Sequence[str] | None = None
) -> TableHandle:
    """Return the handle of a table, without reading the table.

    Args:
        table: path of a table. If `config` is set, the key of a topic or the table name of a topic
            is also valid.
        settings: `key=value` overrides of the YAML file.
    """
    import bayou

    if config is None:
        if settings:
            raise ArgumentError(
                "--set: there is no configuration to override. Add --config.", argument="set"
            )
        return bayou.table(table)
    from bayou.ingest.config import load_configuration
    from bayou.unity.names import is_unity_name

    configuration = load_configuration(config, settings=settings or ())
    connector = configuration.connector
    options = connector.storage.storage_options()
    if connector.catalog is not None and connector.catalog.unity is not None:
        options |= connector.catalog.unity.options() if is_unity_name(table) else {}
    path = configuration.find_table(table)
    if path is None and not re.search(r"[/\\]", table) and not Path(table).exists():
        configuration.topic(table)  # raises the error that suggests a topic
    return bayou.table(path or table, options)


def split_reference(reference: str) -> tuple[str, int | None, str | None]:
    """Split `TABLE@VERSION` or `TABLE@TIME` into the table, the version and the time."""
    path, separator, suffix = reference.rpartition("@")
    if not separator or not path:
        return reference, None, None
    if suffix.isdecimal():
        return path, int(suffix), None
    try:
        dt.datetime.fromisoformat(suffix)
    except ValueError:
        return reference, None, None
    return path, None, suffix
