"""What goes on beside the records: monitoring, maintenance by the clock, migration."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from bayou.ingest.config.section import Section

__all__ = ["MaintenanceConfig", "MigrationConfig", "MonitoringConfig", "is_loopback"]

_SCHEDULES: dict[str, float | None] = {"hourly": 3600.0, "daily": 86400.0, "off": None}


class MonitoringConfig(Section):
    """Metrics, health and the status page, over HTTP."""

    enabled: bool = Field(default=True, description="false: the section is there, no port opens.")
    host: str = Field(
        default="127.0.0.1",
        description="Address to listen at; any but this machine's own loopback needs a token.",
    )
    port: Annotated[int, Field(ge=0, le=65535)] = Field(
        default=8710, description="Port to listen at; 0 takes a free one and says which."
    )
    token: SecretStr | None = Field(
        default=None,
        description="What a reader shows: Authorization: Bearer TOKEN, or ?token=TOKEN for the "
        "page. /healthz and /readyz need none.",
    )
    interval_seconds: Annotated[float, Field(gt=0)] = Field(
        default=10, description="How often the brokers are asked for the ends of the topics."
    )

    @model_validator(mode="after")
    def _token_where_others_reach_it(self) -> MonitoringConfig:
        if self.enabled and self.token is not None and not self.token.get_secret_value():
            raise ValueError("token is empty, so that everybody could read; write one")
        if self.enabled and self.token is None and not is_loopback(self.host):
            raise ValueError(
                f"host {self.host} can be reached from other machines; set token "
                '("${BAYOU_MONITORING_TOKEN}"), or leave host out to listen on 127.0.0.1'
            )
        return self


class MaintenanceConfig(Section):
    """When tables are looked after by the clock; what is done to each its delta-config says."""

    schedule: str = Field(
        default="hourly",
        description="How often: hourly, daily, off, or a number with s, m or h, such as 15m. off: "
        "only optimize-interval and compaction-interval have something done; nothing is vacuumed, "
        "and an upsert forgets no deleted key.",
    )

    @field_validator("schedule")
    @classmethod
    def _is_schedule(cls, value: str) -> str:
        if value not in _SCHEDULES and not re.fullmatch(r"[1-9][0-9]*[smh]", value):
            raise ValueError(f"{value!r} is no schedule; write hourly, daily, off, or 15m, 2h, 90s")
        return value

    @property
    def seconds(self) -> float | None:
        """The time between two looks; None for none."""
        if self.schedule in _SCHEDULES:
            return _SCHEDULES[self.schedule]
        return float(self.schedule[:-1]) * {"s": 1, "m": 60, "h": 3600}[self.schedule[-1]]


class MigrationConfig(Section):
    """JSON files that were there before the tables."""

    enabled: bool = Field(
        default=False,
        description="true: each topic's JSON files are moved into its table before its records "
        "are read; those that are there already are passed over.",
    )
    json_path: dict[str, str] = Field(
        default_factory=dict,
        description="Folder or file of each topic, by its name here. Default: json/<name> in the "
        "bucket of its table, or beside a local table.",
    )
    settle_seconds: Annotated[float, Field(ge=0)] = Field(
        default=60,
        description="A last line without a newline that isn't a whole JSON object is read once "
        "its file hasn't changed for this long; until then it waits for the next migration.",
    )
    on_renamed_file: Literal["fail", "migrate"] = Field(
        default="fail",
        description="When a new file begins with the records of a migrated file that is gone, as "
        "one does that was renamed, moved or packed: fail stops the migration, migrate takes them "
        "as other records.",
    )


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
