"""Options of a streaming read, by the names and values that delta-spark knows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bayou.errors import ArgumentError
from bayou.spark.session.settings import MAX_INITIAL_SNAPSHOT_FILE_COUNT, TIME_ZONE
from bayou.spark.streaming.errors import illegal_option

__all__ = ["DRIVER_FOLDER", "LATEST", "StreamOptions", "reads_change_feed"]

LATEST = "latest"

DRIVER_FOLDER = "bayou.driverfolder"
"""Option that `enable` sets, in lower case: where the driver's process helps."""

DEFAULT_MAX_FILES = 1000

_UNITS = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_SIZE = re.compile(r"(\d+)\s*([kmgtp]?)b?")
_LARGEST = 2**63 - 1
_CONSENTS = ("allowSourceColumnRename", "allowSourceColumnDrop", "allowSourceColumnTypeChange")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """What a streaming read was asked for, checked.

    Attributes:
        max_files, max_bytes: `maxFilesPerTrigger`, `maxBytesPerTrigger`; None where not set.
        starting_version: `startingVersion`, a version or `LATEST`.
        starting_timestamp: `startingTimestamp` as text.
        ignore_deletes, ignore_changes, skip_change_commits: what happens to commits that don't
            only add rows.
        exclude: `excludeRegex`; files whose path it is found in are left out.
        fail_on_data_loss: whether commits that are gone stop the query.
        read_change_feed: rows of the change data feed instead of the table's.
        schema_tracking_location: folder of the schema log.
        source_tracking_id: tells schema logs of two streams of one table apart.
        allowed: `allowSourceColumnRename`, `...Drop`, `...TypeChange` by their last word in lower
            case: `always` or a version.
        max_initial_files: more files than these in the initial snapshot are refused; None: none.
        driver_folder: shared with the driver's process, which helps there; None: nobody does.
        time_zone: of partition values that are timestamps and say none.
        sort_memory: bytes that the initial snapshot's sort may hold before it goes to the disk.
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

    @property
    def files_limit(self) -> int | None:
        """`maxFilesPerTrigger` with its default, which counts only where no bytes are limited."""
        if self.max_files is None and self.max_bytes is None:
            return DEFAULT_MAX_FILES
        return self.max_files

    @property
    def starts_somewhere(self) -> bool:
        """Whether the stream begins at a commit, not with the table as it is."""
        return self.starting_version is not None or self.starting_timestamp is not None

    @property
    def allows_deletes(self) -> bool:
        """Whether commits that only delete are passed over."""
        return self.ignore_deletes or self.allows_changes

    @property
    def allows_changes(self) -> bool:
        """Whether commits that update are read or passed over."""
        return self.ignore_changes or self.skip_change_commits

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> StreamOptions:
        """The options of a data source, of any case; those that aren't ours are passed over.

        Raises:
            ArgumentError: a value that makes no sense, or both starting options.
        """
        given = {key.lower(): value for key, value in options.items()}
        version, timestamp = given.get("startingversion"), given.get("startingtimestamp")
        starting = None if version is None else _starting_version(version)
        if version is not None and timestamp is not None:
            raise ArgumentError(
                "[DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET] startingVersion and "
                "startingTimestamp are both set; a stream takes one of them.",
                argument="startingVersion",
            )
        _refuse_batch_options(given)
        ignores_files = _boolean(given, "ignoreFileDeletion")
        return cls(
            max_files=_positive(given, "maxFilesPerTrigger"),
            max_bytes=_size(given, "maxBytesPerTrigger"),
            starting_version=starting,
            starting_timestamp=timestamp,
            ignore_deletes=_boolean(given, "ignoreDeletes") or ignores_files,
            ignore_changes=_boolean(given, "ignoreChanges") or ignores_files,
            skip_change_commits=_boolean(given, "skipChangeCommits"),
            exclude=_pattern(given, "excludeRegex"),
            fail_on_data_loss=_boolean(given, "failOnDataLoss", default=True),
            read_change_feed=reads_change_feed(given),
            schema_tracking_location=given.get("schematrackinglocation")
            or given.get("schemalocation"),
            source_tracking_id=given.get("streamingsourcetrackingid"),
            allowed={
                name.lower().removeprefix("allowsourcecolumn"): _consent(name, given[name.lower()])
                for name in _CONSENTS
                if name.lower() in given
            },
            sort_memory=_size(given, "initialSnapshotSortMemory"),
            max_initial_files=MAX_INITIAL_SNAPSHOT_FILE_COUNT.integer(given),
            driver_folder=Path(given[DRIVER_FOLDER]) if DRIVER_FOLDER in given else None,
            time_zone=TIME_ZONE.text(given) or "UTC",
        )


def reads_change_feed(given: Mapping[str, str]) -> bool:
    """Whether `readChangeFeed` is on, also under its older name; keys in lower case."""
    return _boolean(given, "readChangeFeed") or _boolean(given, "readChangeData")


def _refuse_batch_options(given: Mapping[str, str]) -> None:
    """What would be passed over, and give rows that weren't asked for."""
    if "filter" in given:
        raise ArgumentError(
            "The option 'filter' is one of batch reads. Put where(...) behind load(...).",
            argument="filter",
        )
    if _boolean(given, "metadataColumn"):
        raise ArgumentError(
            "The option 'metadataColumn' is one of batch reads; leave it out of a stream.",
            argument="metadataColumn",
        )


def _consent(name: str, text: str) -> str:
    value = text.strip().lower()
    if value != "always" and not value.isdecimal():
        raise illegal_option(name, text, "the version of the change, or 'always'")
    return value


def _starting_version(text: str) -> int | str:
    if text.strip().lower() == LATEST:
        return LATEST
    try:
        version = int(text.strip())
    except ValueError:
        version = -1
    if version < 0:
        raise illegal_option("startingVersion", text, "greater than or equal to zero, or 'latest'")
    return version


def _positive(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    try:
        value = int(text.strip())
    except ValueError:
        value = 0
    if value <= 0:
        raise illegal_option(name, text, "a positive integer")
    return value


def _size(given: Mapping[str, str], name: str) -> int | None:
    """Bytes of a size such as `10g`, as Spark reads sizes; no unit is bytes."""
    text = given.get(name.lower())
    if text is None:
        return None
    found = _SIZE.fullmatch(text.strip().lower())
    value = 0 if found is None else int(found[1]) * 1024 ** _UNITS[found[2]]
    if not 0 < value <= _LARGEST:
        raise illegal_option(name, text, "a size such as '10g'")
    return value


def _pattern(given: Mapping[str, str], name: str) -> re.Pattern[str] | None:
    text = given.get(name.lower())
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise illegal_option(name, text, f"a regular expression ({error})") from error


def _boolean(given: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    text = given.get(name.lower())
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise illegal_option(name, text, "'true' or 'false'")
    return text.strip().lower() == "true"
