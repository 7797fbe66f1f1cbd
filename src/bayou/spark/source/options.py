"""Options of the `delta` format: what users set with `.option(...)`.

Spark hands them to Python in lower case, and a read or write knows nothing else: neither the
session's conf nor its time zone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bayou.errors import ArgumentError
from bayou.spark.source.timestamps import parse_timestamp

__all__ = ["SourceOptions", "storage_options"]

_NO_PATH = (
    "The format 'delta' got no path. Read with spark.read.format('delta').load(path) and write "
    "with df.write.format('delta').save(path): Spark passes no options, and so no path, to a "
    "Python data source for tables of its catalog (saveAsTable, CREATE TABLE ... USING delta, "
    "spark.table). A temporary view over a DataFrame gives a table a name."
)
_STORAGE_PREFIXES = ("aws_", "azure_", "google_", "fs.s3a.")
_STORAGE_NAMES = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "proxy_url",
        "timeout",
        "user_agent",
    }
)
_S3A = {
    "fs.s3a.access.key": "aws_access_key_id",
    "fs.s3a.secret.key": "aws_secret_access_key",
    "fs.s3a.session.token": "aws_session_token",
    "fs.s3a.endpoint": "aws_endpoint_url",
    "fs.s3a.endpoint.region": "aws_region",
}
_PROPERTY_PREFIX = "delta."
_NOT_YET = {
    "datachange": "false",
    "overwriteschema": "true",
    "partitionoverwritemode": "dynamic",
}
"""Options of delta-spark, with the value that asks for what isn't supported; to pass over one of
them would read or overwrite other rows than the user means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Options of one read or write, parsed and checked.

    Attributes:
        path: the table's path as the user gave it.
        version: `versionAsOf`.
        timestamp: `timestampAsOf`, in ms since the epoch.
        filter: `filter`, SQL text; only rows for which it is true are read.
        push_filters: `pushFilters`, whether filters that Spark pushes skip files.
        min_partitions: `minPartitions`, the number of tasks to aim at for a small table.
        max_partition_bytes: `maxPartitionBytes`, about how much a task reads.
        merge_schema: `mergeSchema`, whether new columns are added to the table.
        application: `txnAppId` and `txnVersion` of an idempotent write.
        user_metadata: `userMetadata`, free text of the commit.
        checkpoint_location: `checkpointLocation` of a streaming query.
        properties: table properties (`delta.*`) for a table that the write creates; keys in lower
            case, as Spark hands them over.
        storage: storage options in deltalake's names.
    """

    path: str
    version: int | None = None
    timestamp: int | None = None
    filter: str | None = None
    push_filters: bool = False
    min_partitions: int | None = None
    max_partition_bytes: int | None = None
    merge_schema: bool = False
    application: tuple[str, int] | None = None
    user_metadata: str | None = None
    checkpoint_location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """The options of a data source; those that aren't ours are passed over, as Spark does.

        Raises:
            ArgumentError: no path, or an option whose value makes no sense.
        """
        given = {key.lower(): value for key, value in options.items()}
        path = given.get("path", "").strip()
        if not path:
            raise ArgumentError(_NO_PATH, argument="path")
        _refuse_unsupported(given)
        version, timestamp = given.get("versionasof"), given.get("timestampasof")
        if version is not None and timestamp is not None:
            raise ArgumentError(
                "versionAsOf and timestampAsOf are both set; a read takes one of them.",
                argument="versionAsOf",
            )
        return cls(
            path=path,
            version=None if version is None else _integer("versionAsOf", version, 0),
            timestamp=None if timestamp is None else parse_timestamp("timestampAsOf", timestamp),
            filter=given.get("filter"),
            push_filters=_boolean(given, "pushFilters"),
            min_partitions=_optional_integer(given, "minPartitions"),
            max_partition_bytes=_optional_integer(given, "maxPartitionBytes"),
            merge_schema=_boolean(given, "mergeSchema"),
            application=_application(given),
            user_metadata=given.get("usermetadata"),
            checkpoint_location=given.get("checkpointlocation"),
            properties={k: v for k, v in given.items() if k.startswith(_PROPERTY_PREFIX)},
            storage=storage_options(given),
        )


def storage_options(options: Mapping[str, str]) -> dict[str, str]:
    """Those options that are about the store, in deltalake's names (keys in lower case).

    Hadoop's names for S3 (`fs.s3a.access.key`, `fs.s3a.endpoint`, ...) are translated; deltalake's
    own win over them.
    """
    given = {key.lower(): value for key, value in options.items()}
    result = dict(_from_hadoop(given))
    for key, value in given.items():
        if key.startswith("fs."):
            continue
        if key.startswith(_STORAGE_PREFIXES) or key in _STORAGE_NAMES:
            result[key] = value
    return result


def _refuse_unsupported(given: Mapping[str, str]) -> None:
    for name, value in given.items():
        if name == "replacewhere" or value.strip().lower() == _NOT_YET.get(name):
            raise ArgumentError(
                f"The option {name}={value} isn't supported by this version of Bayou.",
                argument=name,
            )


def _from_hadoop(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, value in given.items():
        if key in _S3A:
            yield _S3A[key], value
    if "fs.s3a.path.style.access" in given:
        path_style = _boolean(given, "fs.s3a.path.style.access")
        yield "aws_virtual_hosted_style_request", str(not path_style).lower()
    endpoint = given.get("fs.s3a.endpoint", "")
    ssl = given.get("fs.s3a.connection.ssl.enabled")
    if endpoint and "://" not in endpoint:
        scheme = "http" if ssl is not None and ssl.lower() == "false" else "https"
        yield "aws_endpoint_url", f"{scheme}://{endpoint}"
        endpoint = f"{scheme}://{endpoint}"
    if endpoint.startswith("http://"):
        yield "aws_allow_http", "true"


def _application(given: Mapping[str, str]) -> tuple[str, int] | None:
    app_id, version = given.get("txnappid"), given.get("txnversion")
    if app_id is None and version is None:
        return None
    if app_id is None or version is None:
        raise ArgumentError(
            "txnAppId and txnVersion belong together: set both to make a write idempotent.",
            argument="txnAppId",
        )
    return app_id, _integer("txnVersion", version, 0)


def _optional_integer(given: Mapping[str, str], name: str) -> int | None:
    value = given.get(name.lower())
    return None if value is None else _integer(name, value, 1)


def _integer(name: str, text: str, least: int) -> int:
    try:
        value = int(text.strip())
    except ValueError:
        value = least - 1
    if value < least:
        raise ArgumentError(
            f"{name} is {text!r}; it must be a whole number, at least {least}.", argument=name
        )
    return value


def _boolean(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name.lower(), "false").strip().lower()
    if text not in ("true", "false"):
        raise ArgumentError(f"{name} is {text!r}; it must be true or false.", argument=name)
    return text == "true"
