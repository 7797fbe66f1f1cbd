"""Finds addresses of registries and machines that the repository's files must not contain."""

from __future__ import annotations

import re

__all__ = ["found_in"]

# A character class in each name prevents matches in this file.
_REGISTRY = re.compile(
    r"p[y]pi\.org|python[h]osted|repo1?\.[m]aven|[m]aven\.org|registry\.[n]pm|proxy\.[g]olang"
    r"|g[h]cr\.io|d[o]cker\.io|in[d]ex-url|arti[f]actory"
)
# A version pin (==10.2.0) isn't an IP address.
_MACHINE = re.compile(
    r"(?<![\d.])(?<!==)(?:10|192\.168|172\.(?:1[6-9]|2\d|3[01]))(?:\.\d{1,3}){2,3}\b"
)
_HOST = re.compile(r"https?://([^/\s:'\"`)>\]}]+)")
# Allowed hosts, in addition to names without a dot; none of them serves packages.
_ALLOWED = {
    "127.0.0.1",
    "delta.io",
    "example.com",
    "github.com",
    "json-schema.org",
    "localhost",
    "login.microsoftonline.com",
    "spark.apache.org",
    "storage.azure.com",  # like the next one, a name in tokens of Azure
    "sts.windows.net",
    "www.apache.org",
    "www.w3.org",
}
# Clusters and namespaces of managed brokers, as in docs/guide/managed-kafka.md.
_ALLOWED_DOMAINS = (".example.com", ".confluent.cloud", ".servicebus.windows.net")


def found_in(text: str) -> list[str]:
    """Return the addresses in a text that aren't allowed."""
    matches = [m.group() for pattern in (_REGISTRY, _MACHINE) for m in pattern.finditer(text)]
    hosts = (m.group(1) for m in _HOST.finditer(text))
    return matches + [
        host
        for host in hosts
        if "." in host and host not in _ALLOWED and not host.endswith(_ALLOWED_DOMAINS)
    ]
