"""Converts a table's metadata to requests that create or update the table's catalog entry.

The catalog entry contains copies of the columns, properties and protocol from the table's log. For
a managed table, the request for a commit also updates the entry. For an external table, a separate
request updates the entry after each commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from bayou.json_decoding import decode_json
from bayou.kernel.snapshot import Snapshot
from bayou.protocol.actions import DomainMetadata, Metadata, Protocol, decode_actions
from bayou.unity.wire import TableMetadata, columns_body

_FEATURE = "delta.feature."
_DOMAINS = {"delta.clustering": "clusteringColumns", "delta.rowTracking": "rowIdHighWaterMark"}
"""Maps each metadata domain that the API supports to a field of the domain's configuration.

Only this field is sent to the API.
"""

_DOMAIN_PROPERTIES = {
    "clusteringColumns": "delta.clustering",
    "delta.clusteringColumns": "delta.clustering",
    "delta.rowTracking.rowIdHighWaterMark": "delta.rowTracking",
}
"""Maps properties of a catalog entry to the metadata domains whose configuration they contain.

For clustering columns, `delta.yaml` specifies `delta.clusteringColumns`, but the open-source server
uses `clusteringColumns`.
"""

_DERIVED = frozenset(
    {
        "delta.lastCommitTimestamp",
        "delta.lastUpdateVersion",
        "delta.minReaderVersion",
        "delta.minWriterVersion",
        *_DOMAIN_PROPERTIES,
    }
)
"""Properties of a catalog entry that the server sets. Clients must not send them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataChange:
    """The metadata that a commit changes, or all metadata of a table version.

    Attributes:
        metadata: the table's metadata; None if the commit doesn't change it.
        protocol: the table's protocol; None if the commit doesn't change it.
        domains: the metadata domains that the commit sets or removes. Only domains that the API
            supports are included.
    """

    metadata: Metadata | None = None
    protocol: Protocol | None = None
    domains: tuple[DomainMetadata, ...] = ()

    @classmethod
    def of_commit(cls, lines: Sequence[bytes]) -> MetadataChange:
        """Return the metadata changes of a commit.

        Args:
            lines: the commit's actions as JSON.
        """
        metadata, protocol, domains = None, None, []
        kinds = (Metadata, Protocol, DomainMetadata)
        for action in decode_actions(b"\n".join(lines), kinds):
            match action:
                case Metadata():
                    metadata = action
                case Protocol():
                    protocol = action
                case DomainMetadata() if action.domain in _DOMAINS:
                    domains.append(action)
        return cls(metadata=metadata, protocol=protocol, domains=tuple(domains))

    @classmethod
    def of_table(cls, snapshot: Snapshot) -> MetadataChange:
        """Return all metadata of a table version."""
        domains = [d for d in snapshot.domain_actions.values() if d.domain in _DOMAINS]
        return cls(metadata=snapshot.metadata, protocol=snapshot.protocol, domains=tuple(domains))

    def __bool__(self) -> bool:
        return bool(self.metadata or self.protocol or self.domains)

    def create_body(
        self, name: str, location: str, table_type: str, timestamp: int
    ) -> dict[str, object]:
        """Return the body of a request that creates the table.

        Args:
            table_type: `MANAGED` or `EXTERNAL`.
            timestamp: commit time of the latest version in milliseconds since the epoch.
        """
        assert self.metadata is not None
        assert self.protocol is not None
        body: dict[str, object] = {
            "name": name,
            "location": location,
            "table-type": table_type,
            "columns": columns_body(self.metadata.schema_string),
            "partition-columns": self.metadata.partition_columns,
            "protocol": _protocol_body(self.protocol),
            "properties": _sent(self.metadata.configuration),
            "last-commit-timestamp-ms": timestamp,
        }
        if self.metadata.description is not None:
            body["comment"] = self.metadata.description
        domains = {
            d.domain: configuration
            for d in self.domains
            if not d.removed and (configuration := _domain_body(d)) is not None
        }
        if domains:
            body["domain-metadata"] = domains
        return body

    def updates(self, entry: TableMetadata, *, removes: bool) -> list[dict[str, object]]:
        """Return the parts of an update request that copy this metadata to the catalog entry.

        Args:
            entry: the current entry.
            removes: whether properties of the entry that aren't table properties are removed.
        """
        known = entry.properties or {}
        return [
            *self._metadata_updates(entry, known, removes=removes),
            *self._protocol_updates(known),
            *self._domain_updates(known),
        ]

    def _metadata_updates(
        self, entry: TableMetadata, known: Mapping[str, str], *, removes: bool
    ) -> Iterator[dict[str, object]]:
        if self.metadata is None:
            return
        columns = columns_body(self.metadata.schema_string)
        if columns.get("fields") != entry.columns.get("fields"):
            yield {"action": "set-columns", "columns": columns}
        if self.metadata.partition_columns != (entry.partition_columns or []):
            yield {
                "action": "set-partition-columns",
                "partition-columns": self.metadata.partition_columns,
            }
        sent = _sent(self.metadata.configuration)
        changed = {key: value for key, value in sent.items() if known.get(key) != value}
        if changed:
            yield {"action": "set-properties", "updates": changed}
        removed = [key for key in _sent(known) if key not in sent]
        if removes and removed:
            yield {"action": "remove-properties", "removals": removed}
        if self.metadata.description is not None:
            yield {"action": "set-table-comment", "comment": self.metadata.description}

    def _protocol_updates(self, known: Mapping[str, str]) -> Iterator[dict[str, object]]:
        if self.protocol is None:
            return
        body = _protocol_body(self.protocol)
        listed = {key.removeprefix(_FEATURE) for key in known if key.startswith(_FEATURE)}
        features = {*(self.protocol.reader_features or ()), *(self.protocol.writer_features or ())}
        versions = (
            known.get("delta.minReaderVersion"),
            known.get("delta.minWriterVersion"),
        )
        expected = (
            str(self.protocol.min_reader_version),
            str(self.protocol.min_writer_version),
        )
        if listed != features or versions != expected:
            yield {"action": "set-protocol", "protocol": body}

    def _domain_updates(self, known: Mapping[str, str]) -> Iterator[dict[str, object]]:
        shown = {
            domain: {_DOMAINS[domain]: _decoded(known[key])}
            for key, domain in _DOMAIN_PROPERTIES.items()
            if key in known
        }
        changed = {
            domain.domain: body
            for domain in self.domains
            if not domain.removed
            and (body := _domain_body(domain)) not in (None, shown.get(domain.domain))
        }
        if changed:
            yield {"action": "set-domain-metadata", "updates": changed}
        removed = [d.domain for d in self.domains if d.removed and d.domain in shown]
        if removed:
            yield {"action": "remove-domain-metadata", "domains": removed}


def _sent(properties: Mapping[str, str]) -> dict[str, str]:
    """Remove the properties that clients must not send."""
    return {
        key: value
        for key, value in properties.items()
        if key not in _DERIVED and not key.startswith(_FEATURE)
    }


def _protocol_body(protocol: Protocol) -> dict[str, object]:
    body: dict[str, object] = {
        "min-reader-version": protocol.min_reader_version,
        "min-writer-version": protocol.min_writer_version,
    }
    if protocol.reader_features is not None:
        body["reader-features"] = protocol.reader_features
    if protocol.writer_features is not None:
        body["writer-features"] = protocol.writer_features
    return body


def _domain_body(domain: DomainMetadata) -> dict[str, Any] | None:
    """Return the configuration of a metadata domain in the API's form; None if it isn't valid."""
    field = _DOMAINS[domain.domain]
    configuration = _decoded(domain.configuration)
    if not isinstance(configuration, dict) or field not in configuration:
        return None
    return {field: configuration[field]}


def _decoded(text: str) -> Any:
    """Decode JSON; return None if the text isn't JSON."""
    try:
        return decode_json(text, object)
    except msgspec.DecodeError:
        return None


def in_commit_timestamp(lines: Iterable[bytes]) -> int:
    """Return the in-commit timestamp of a commit. It is in the first line of the commit."""
    info = msgspec.json.decode(next(iter(lines)))["commitInfo"]
    timestamp: int = info["inCommitTimestamp"]
    return timestamp
