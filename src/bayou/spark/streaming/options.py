"""Options of a streaming read, with delta-spark's names and values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bayou.errors import ArgumentError
from bayou.spark.session.settings import MAX_INITIAL_SNAPSHOT_FILE_COUNT, TIME_ZONE
from bayou.spark.streaming.errors import illegal_option

LATEST = "latest"

DRIVER_FOLDER = "bayou.driverfolder"
"""Name of an internal option. Its value is the folder for requests to the driver's process.

Bayou's hooks set the option.
"""

PADS_CHAR = "bayou.padsChar"
"""Name of an internal option. Its value is `true` if CHAR values are padded with spaces.

Bayou's hooks set the option.
"""

DEFAULT_MAX_FILES = 1000

_UNITS = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_SIZE = re.compile(r"(\d+)\s*([kmgtp]?)b?")
_MAX_LONG = 2**63 - 1
_ALLOW_OPTIONS = ("allowSourceColumnRename", "allowSourceColumnDrop", "allowSourceColumnTypeChange")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """The validated options of a streaming read.

    Attributes:
        max_files, max_bytes: `maxFilesPerTrigger`, `maxBytesPerTrigger`; None if not set.
        starting_version: `startingVersion`: a version or `LATEST`; None if not set.
        ignore_deletes: `ignoreDeletes`: whether commits that only delete rows are skipped.
        ignore_changes: `ignoreChanges`: whether the stream reads the added files of a commit that
            updates rows.
        skip_change_commits: `skipChangeCommits`: whether commits that delete or update rows are
            skipped.
        exclude: `excludeRegex`: a file is skipped if the expression matches a part of its path.
        source_tracking_id: `streamingSourceTrackingId`: suffix of the schema log's name. Streams
            of the same table need different suffixes or different schema tracking locations.
        allowed: maps `rename`, `drop` and `typechange` to the values of `allowSourceColumnRename`,
            `allowSourceColumnDrop` and `allowSourceColumnTypeChange`. Each value is `always` or a
            version. Options that aren't set have no key.
        sort_memory: maximum memory in bytes for sorting the files of the initial snapshot. If more
            memory is needed, the sort uses local disk.
        max_initial_files: maximum number of files in the initial snapshot; None for no limit.
        driver_folder: folder for requests to the driver's process; None if there is none.
        time_zone: time zone of timestamp partition values that have no time zone.
        pads_char: `bayou.padsChar`: whether CHAR values are padded with spaces.
    """

    max_files: int | None = None
    max_bytes: int | None = None
    starting_version: int | str | None = None
    starting_timestamp: str | None = None
    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_change_commits: bool = False
    exclude: re.Pattern[str] | None = None
    fail_on_data_loss: bool = True
    read_change_feed: bool = False
    schema_tracking_location: str | None = None
    source_tracking_id: str | None = None
    allowed: Mapping[str, str]
    sort_memory: int | None = None
    max_initial_files: int | None = None
    driver_folder: Path | None = None
    time_zone: str = "UTC"
    pads_char: bool = True

    @property
    def files_limit(self) -> int | None:
        """Maximum number of files in a micro-batch; None if only `maxBytesPerTrigger` is set."""
        if self.max_files is None and self.max_bytes is None:
            return DEFAULT_MAX_FILES
        return self.max_files

    @property
    def has_starting_position(self) -> bool:
        """Whether `startingVersion` or `startingTimestamp` is set.

        If neither is set, the stream starts with an initial snapshot.
        """
        return self.starting_version is not None or self.starting_timestamp is not None

    @property
    def allows_deletes(self) -> bool:
        """Whether commits that only delete rows are skipped; if False, they cause an error."""
        return self.ignore_deletes or self.allows_changes

    @property
    def allows_changes(self) -> bool:
        """Whether commits that update rows are allowed; if False, they cause an error.

        If True, `skip_change_commits` determines whether these commits are skipped or read.
        """
        return self.ignore_changes or self.skip_change_commits

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> StreamOptions:
        """Parse the options of a data source; names are case-insensitive.

        Unknown options are ignored, as in Spark.
        """
        values = {key.lower(): value for key, value in options.items()}
        version, timestamp = values.get("startingversion"), values.get("startingtimestamp")
        starting = None if version is None else _starting_version(version)
        if version is not None and timestamp is not None:
            raise ArgumentError(
                "[DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET] Options startingVersion and "
                "startingTimestamp: both are set. Set only one of them.",
                argument="startingVersion",
            )
        _refuse_batch_options(values)
        ignores_files = _boolean(values, "ignoreFileDeletion")
        return cls(
            max_files=_positive(values, "maxFilesPerTrigger"),
            max_bytes=_size(values, "maxBytesPerTrigger"),
            starting_version=starting,
            starting_timestamp=timestamp,
            ignore_deletes=_boolean(values, "ignoreDeletes") or ignores_files,
            ignore_changes=_boolean(values, "ignoreChanges") or ignores_files,
            skip_change_commits=_boolean(values, "skipChangeCommits"),
            exclude=_pattern(values, "excludeRegex"),
            fail_on_data_loss=_boolean(values, "failOnDataLoss", default=True),
            read_change_feed=reads_change_feed(values),
            schema_tracking_location=values.get("schematrackinglocation")
            or values.get("schemalocation"),
            source_tracking_id=values.get("streamingsourcetrackingid"),
            allowed={
                name.lower().removeprefix("allowsourcecolumn"): _allowed(name, values[name.lower()])
                for name in _ALLOW_OPTIONS
                if name.lower() in values
            },
            sort_memory=_size(values, "initialSnapshotSortMemory"),
            max_initial_files=MAX_INITIAL_SNAPSHOT_FILE_COUNT.integer(values),
            driver_folder=Path(values[DRIVER_FOLDER]) if DRIVER_FOLDER in values else None,
            time_zone=TIME_ZONE.string(values) or "UTC",
            pads_char=_boolean(values, PADS_CHAR, default=True),
        )


def reads_change_feed(values: Mapping[str, str]) -> bool:
    """Whether `readChangeFeed` or its older name `readChangeData` is true.

    The keys of `values` are in lower case.
    """
    return _boolean(values, "readChangeFeed") or _boolean(values, "readChangeData")


def _refuse_batch_options(values: Mapping[str, str]) -> None:
    """Raise `ArgumentError` for an option that only batch reads support."""
    if "filter" in values:
        raise ArgumentError(
            "Option 'filter': streams don't support this option. Call where(...) after load(...).",
            argument="filter",
        )
    if _boolean(values, "metadataColumn"):
        raise ArgumentError(
            "Option 'metadataColumn': streams don't support this option. Remove the option.",
            argument="metadataColumn",
        )


def _allowed(name: str, value: str) -> str:
    normalized = value.strip().lower()
    if normalized != "always" and not normalized.isdecimal():
        raise illegal_option(name, value, "the version of the change, or 'always'")
    return normalized


def _starting_version(value: str) -> int | str:
    if value.strip().lower() == LATEST:
        return LATEST
    try:
        version = int(value.strip())
    except ValueError:
        version = -1
    if version < 0:
        raise illegal_option("startingVersion", value, "greater than or equal to zero, or 'latest'")
    return version


def _positive(values: Mapping[str, str], name: str) -> int | None:
    value = values.get(name.lower())
    if value is None:
        return None
    try:
        number = int(value.strip())
    except ValueError:
        number = 0
    if number <= 0:
        raise illegal_option(name, value, "a positive integer")
    return number


def _size(values: Mapping[str, str], name: str) -> int | None:
    """Return the value of the option `name` in bytes; None if the option isn't set.

    The value is a size such as `10g`, in Spark's syntax. A number without a unit is in bytes.
    """
    value = values.get(name.lower())
    if value is None:
        return None
    match = _SIZE.fullmatch(value.strip().lower())
    size = 0 if match is None else int(match[1]) * 1024 ** _UNITS[match[2]]
    if not 0 < size <= _MAX_LONG:
        raise illegal_option(name, value, "a size such as '10g'")
    return size


def _pattern(values: Mapping[str, str], name: str) -> re.Pattern[str] | None:
    value = values.get(name.lower())
    if value is None:
        return None
    try:
        return re.compile(value)
    except re.error as error:
        raise illegal_option(name, value, f"a regular expression ({error})") from error


def _boolean(values: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    value = values.get(name.lower())
    if value is None:
        return default
    if value.strip().lower() not in ("true", "false"):
        raise illegal_option(name, value, "'true' or 'false'")
    return value.strip().lower() == "true"
