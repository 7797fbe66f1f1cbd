"""Request and response bodies of the UC Delta API, as in Unity Catalog's `api/delta.yaml`.

Unknown fields in responses are ignored.
"""

from __future__ import annotations

from typing import Any

import msgspec


class _Body(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A JSON object whose keys are in kebab case, such as `table-id`."""


class Commit(_Body, frozen=True, kw_only=True):
    """A ratified, unpublished commit (DeltaCommit). Timestamps are in ms since the epoch."""

    version: int
    timestamp: int
    file_name: str
    file_size: int
    file_modification_timestamp: int


class TableMetadata(_Body, frozen=True, kw_only=True):
    """The catalog entry of a table (DeltaTableMetadata)."""

    table_type: str
    table_uuid: str
    location: str
    columns: dict[str, Any] = msgspec.field(default_factory=lambda: {})
    partition_columns: list[str] | None = None
    properties: dict[str, str] | None = None


class LoadedTable(_Body, frozen=True, kw_only=True):
    """A table with its unpublished commits (DeltaLoadTableResponse)."""

    metadata: TableMetadata
    commits: list[Commit] | None = None
    latest_table_version: int | None = None
    allowed_maintenance_operations: list[str] | None = None

    @property
    def is_managed(self) -> bool:
        """Whether the catalog ratifies the table's commits."""
        return self.metadata.table_type == "MANAGED" and self.latest_table_version is not None


class StorageCredential(_Body, frozen=True, kw_only=True):
    """A vended credential (DeltaStorageCredential)."""

    prefix: str
    config: dict[str, str | None] = msgspec.field(default_factory=lambda: {})
    expiration_time_ms: int | None = None


class Credentials(_Body, frozen=True, kw_only=True):
    """Vended credentials (DeltaCredentialsResponse)."""

    storage_credentials: list[StorageCredential]


class ProtocolBody(_Body, frozen=True, kw_only=True):
    """A protocol (DeltaProtocol)."""

    reader_features: list[str] | None = None
    writer_features: list[str] | None = None


class StagingTable(_Body, frozen=True, kw_only=True):
    """The reserved id and location of a new managed table (DeltaStagingTableResponse).

    If a value in `required_properties` is None, the catalog accepts any value of the property.
    """

    table_id: str
    location: str
    storage_credentials: list[StorageCredential]
    required_protocol: ProtocolBody
    required_properties: dict[str, str | None]


class _AwsCredentials(msgspec.Struct, frozen=True, kw_only=True):
    access_key_id: str
    secret_access_key: str
    session_token: str | None = None


class _AzureCredentials(msgspec.Struct, frozen=True, kw_only=True):
    sas_token: str


class _GcpCredentials(msgspec.Struct, frozen=True, kw_only=True):
    oauth_token: str


class PathCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials for a path (TemporaryCredentials of `api/all.yaml`)."""

    aws_temp_credentials: _AwsCredentials | None = None
    azure_user_delegation_sas: _AzureCredentials | None = None
    gcp_oauth_token: _GcpCredentials | None = None
    expiration_time: int | None = None

    def storage_credential(self, prefix: str) -> StorageCredential:
        """Return the credential in the form of the UC Delta API."""
        config: dict[str, str | None] = {}
        if self.aws_temp_credentials is not None:
            config["s3.access-key-id"] = self.aws_temp_credentials.access_key_id
            config["s3.secret-access-key"] = self.aws_temp_credentials.secret_access_key
            config["s3.session-token"] = self.aws_temp_credentials.session_token
        if self.azure_user_delegation_sas is not None:
            config["azure.sas-token"] = self.azure_user_delegation_sas.sas_token
        if self.gcp_oauth_token is not None:
            config["gcs.oauth-token"] = self.gcp_oauth_token.oauth_token
        return StorageCredential(
            prefix=prefix, config=config, expiration_time_ms=self.expiration_time
        )


_RENAMED = {
    "elementType": "element-type",
    "containsNull": "contains-null",
    "keyType": "key-type",
    "valueType": "value-type",
    "valueContainsNull": "value-contains-null",
}


def columns_body(schema_string: str) -> dict[str, Any]:
    """Convert the JSON schema of a table to the form of the API (DeltaStructType)."""
    columns: dict[str, Any] = _type_body(msgspec.json.decode(schema_string))
    return columns


def _type_body(data_type: Any) -> Any:
    if not isinstance(data_type, dict):
        return data_type
    body = {_RENAMED.get(key, key): value for key, value in data_type.items()}
    for key in ("element-type", "key-type", "value-type"):
        if key in body:
            body[key] = _type_body(body[key])
    if "fields" in body:
        body["fields"] = [{**field, "type": _type_body(field["type"])} for field in body["fields"]]
    return body
