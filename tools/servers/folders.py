"""Where `fetch_servers.py` puts the servers, and of which versions they are."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

KAFKA = "org.apache.kafka:kafka_2.13"
KAFKA_LOGGING = "org.slf4j:slf4j-simple"
S3 = "github.com/versity/versitygw"
PROMETHEUS = "github.com/prometheus/prometheus"


@cache
def versions() -> dict[str, str]:
    """The pinned version of each name in `versions.txt`."""
    lines = Path(__file__).with_name("versions.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def server_cache() -> Path:
    """The folder of all servers."""
    if named := os.environ.get("BAYOU_SERVERS"):
        return Path(named).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bayou" / "servers"


def kafka_folder() -> Path:
    """The broker's folder, with its JARs in `libs`; it is there when it is complete."""
    return server_cache() / f"kafka-{versions()[KAFKA]}"


def s3_folder() -> Path:
    """The folder of `versitygw`; it is there when it is complete."""
    return server_cache() / f"versitygw-{versions()[S3]}"


def promtool_folder() -> Path:
    """The folder of `promtool`; it is there when it is complete."""
    return server_cache() / f"promtool-{versions()[PROMETHEUS]}"
