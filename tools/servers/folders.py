"""Folders and pinned versions of the servers that `fetch_servers.py` fetches."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

KAFKA = "org.apache.kafka:kafka_2.13"
KAFKA_LOGGING = "org.slf4j:slf4j-simple"
S3 = "github.com/versity/versitygw"
AZURITE = "azurite"
PROMETHEUS = "github.com/prometheus/prometheus"


@cache
def versions() -> dict[str, str]:
    """Return the pinned version of each name in `versions.txt`."""
    lines = Path(__file__).with_name("versions.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def server_cache() -> Path:
    """Return the folder of all servers."""
    if named := os.environ.get("BAYOU_SERVERS"):
        return Path(named).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bayou" / "servers"


def kafka_folder() -> Path:
    """Return the broker's folder, with its JARs in `libs`. It only exists if complete."""
    return server_cache() / f"kafka-{versions()[KAFKA]}"


def s3_folder() -> Path:
    """Return the folder of `versitygw`. It only exists if complete."""
    return server_cache() / f"versitygw-{versions()[S3]}"


def azurite_folder() -> Path:
    """Return the folder of `azurite`, an npm package. It only exists if complete."""
    return server_cache() / f"azurite-{versions()[AZURITE]}"


def promtool_folder() -> Path:
    """Return the folder of `promtool`. It only exists if complete."""
    return server_cache() / f"promtool-{versions()[PROMETHEUS]}"
