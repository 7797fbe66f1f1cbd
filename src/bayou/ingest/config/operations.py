"""Settings of operations: monitoring, scheduled maintenance, migration."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from bayou.ingest.config.section import Section

_SCHEDULES: dict[str, float | None] = {"hourly": 3600.0, "daily": 86400.0, "off": None}


class MonitoringConfig(Section):
    """Metrics, health and the status page, over HTTP."""

    enabled: bool = Field(default=True, description="false: no port is opened.")
    host: str = Field(
        default="127.0.0.1",
        description="Address to listen on. Any address but loopback needs a token.",
    )
    port: Annotated[int, Field(ge=0, le=65535)] = Field(
        default=8710, description="Port to listen on. 0 selects a free port and reports it."
    )
    token: SecretStr | None = Field(
        default=None,
        description="Token that requests must contain: the header Authorization: Bearer TOKEN, or "
        "?token=TOKEN for the status page. /healthz and /readyz need no token.",
    )
    interval_seconds: Annotated[float, Field(gt=0)] = Field(
        default=10, description="Interval at which the end offsets are read from the brokers."
    )

    @model_validator(mode="after")
    def _token_for_remote_readers(self) -> MonitoringConfig:
        if self.enabled and self.token is not None and not self.token.get_secret_value():
            raise ValueError("token is empty, so everybody could read the metrics; set a token")
        if self.enabled and self.token is None and not is_loopback(self.host):
            raise ValueError(
                f"host {self.host} can be reached from other machines; set token "
                '("${BAYOU_MONITORING_TOKEN}"), or remove host to listen on 127.0.0.1'
            )
        return self


class MaintenanceConfig(Section):
    """The schedule of maintenance. The `delta-config` of each topic enables maintenance tasks."""

    schedule: str = Field(
        default="hourly",
        description="Interval of maintenance: hourly, daily, off, or a number with s, m or h, such "
        "as 15m. off: only optimize-interval and compaction-interval trigger maintenance; no "
        "vacuum runs, and no deleted key of an upsert is removed.",
    )

    @field_validator("schedule")
    @classmethod
    def _is_schedule(cls, value: str) -> str:
        if value not in _SCHEDULES and not re.fullmatch(r"[1-9][0-9]*[smh]", value):
            raise ValueError(
                f"{value!r} isn't a valid schedule; write hourly, daily, off, or an interval: 15m"
            )
        return value

    @property
    def seconds(self) -> float | None:
        """Seconds between two maintenance runs; None without a schedule."""
        if self.schedule in _SCHEDULES:
            return _SCHEDULES[self.schedule]
        return float(self.schedule[:-1]) * {"s": 1, "m": 60, "h": 3600}[self.schedule[-1]]


class MigrationConfig(Section):
    """Existing JSON files to migrate into the tables."""

    enabled: bool = Field(
        default=False,
        description="true: each topic's JSON files are migrated into its table before its records "
        "are read. Files that are already migrated are skipped.",
    )
    json_path: dict[str, str] = Field(
        default_factory=dict,
        description="Folder or file of each topic's JSON files, by the topic's key. Default: "
        "json/<key> in the bucket of its table, or beside a local table.",
    )
    settle_seconds: Annotated[float, Field(ge=0)] = Field(
        default=60,
        description="An incomplete last line (no newline, not a complete JSON object) is read only "
        "if its file hasn't changed for this many seconds, otherwise by a later migration.",
    )
    on_renamed_file: Literal["fail", "migrate"] = Field(
        default="fail",
        description="When a new file starts with the records of a migrated file that no longer "
        "exists, because it was renamed, moved or compressed: fail stops the migration, migrate "
        "adds the file's records again as new rows.",
    )


def is_loopback(host: str) -> bool:
    """Whether an address can only be reached from this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
