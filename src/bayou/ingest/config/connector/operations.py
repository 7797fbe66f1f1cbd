"""Settings of operations: monitoring, scheduled maintenance, migration."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from bayou.ingest.config.base_section import Section

_SCHEDULES: dict[str, float | None] = {"hourly": 3600.0, "daily": 86400.0, "off": None}


class MonitoringConfig(Section):
    """Metrics, health and the status page, over HTTP."""

    enabled: bool = Field(default=True, description="false: no port is opened.")
    host: str = Field(
        default="127.0.0.1",
        description="Address to listen on. If it isn't a loopback address, token must be set.",
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
    def _check_token(self) -> MonitoringConfig:
        if self.enabled and self.token is not None and not self.token.get_secret_value():
            raise ValueError("token is empty, so everybody could read the metrics; set a token")
        if self.enabled and self.token is None and not is_loopback(self.host):
            raise ValueError(
                f"host {self.host} can be reached from other machines; set token "
                '("${BAYOU_MONITORING_TOKEN}"), or remove host to listen on 127.0.0.1'
            )
        return self


class MaintenanceConfig(Section):
    """The schedule of maintenance. The tasks are enabled in the `delta-config` of each topic."""

    schedule: str = Field(
        default="hourly",
        description="Interval of maintenance: hourly, daily, off, or a number with s, m or h, such "
        "as 15m. If off, only optimize-interval and compaction-interval trigger maintenance; "
        "tables aren't vacuumed, and deleted keys of an upsert aren't removed.",
    )

    @field_validator("schedule")
    @classmethod
    def _check_schedule(cls, value: str) -> str:
        if value not in _SCHEDULES and not re.fullmatch(r"[1-9][0-9]*[smh]", value):
            raise ValueError(
                f"{value!r} isn't a valid schedule; write hourly, daily, off, or an interval "
                "such as 15m"
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
        description="true: before a topic's records are read, its JSON files are migrated into its "
        "table. Files that are already migrated are skipped.",
    )
    json_path: dict[str, str] = Field(
        default_factory=dict,
        description="For each topic's key, the folder or file with the topic's JSON records. "
        "Default: json/<key> in the bucket of the topic's table, or beside a local table.",
    )
    settle_seconds: Annotated[float, Field(ge=0)] = Field(
        default=60,
        description="Seconds for which a file must be unchanged before an incomplete last line (no "
        "newline, not a complete JSON object) is read. Until then, migrations skip the line.",
    )
    on_renamed_file: Literal["fail", "migrate"] = Field(
        default="fail",
        description="What happens if a new file starts with the records of a migrated file, and "
        "the migrated file no longer exists or has other records now, because it was renamed, "
        "moved, rotated or compressed: fail stops the migration, migrate adds the records of the "
        "new file as new rows.",
    )


def is_loopback(host: str) -> bool:
    """Whether an address can only be reached from this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
