"""What the pipeline's YAML may say, key by key.

Keys are written in kebab case. Every key means what its description says; a key that belongs to a
feature of a later version is accepted and reported by `bayou.ingest.config.notices`, or refused
there where ignoring it would change what ends up in the table.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterator
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    SecretStr,
    field_validator,
    model_validator,
)

from bayou.ingest.config.clear_secrets import is_secret

__all__ = [
    "ConnectorConfig",
    "DeltaConfig",
    "DestinationConfig",
    "KafkaConfig",
    "KafkaSecurity",
    "MaintenanceConfig",
    "MigrationConfig",
    "MonitoringConfig",
    "ObjectiveConfig",
    "PipelineConfig",
    "ProcessingConfig",
    "SchemaRegistryConfig",
    "SparkConfig",
    "StorageConfig",
    "TopicConfig",
    "is_loopback",
]

_SECURITY_PROPERTIES = {
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
}
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class _Section(BaseModel):
    """A mapping of the YAML: kebab-case keys, unknown ones refused."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=_kebab,
        populate_by_name=True,
        hide_input_in_errors=True,
    )

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Properties of others may hold secrets, too."""
        for name, value in super().__repr_args__():
            secret = name is not None and isinstance(value, str) and is_secret(name)
            yield name, "**********" if secret else value


class KafkaSecurity(_Section):
    """How to log in to the broker."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="librdkafka's security.protocol."
    )
    mechanism: (
        Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER"] | None
    ) = Field(default=None, description="librdkafka's sasl.mechanism.")
    username: str | None = Field(default=None, description="SASL user name.")
    password: SecretStr | None = Field(default=None, description="SASL password.")
    ca_location: str | None = Field(default=None, description="File or folder of CA certificates.")

    @model_validator(mode="after")
    def _protocol_agrees(self) -> KafkaSecurity:
        sasl = self.protocol.startswith("SASL")
        if not sasl and (self.mechanism or self.username or self.password):
            raise ValueError(
                f"mechanism, username and password aren't used with protocol {self.protocol}; "
                "write protocol: SASL_SSL (or SASL_PLAINTEXT)"
            )
        if sasl and self.mechanism is None:
            raise ValueError(f"protocol {self.protocol} needs a mechanism, such as SCRAM-SHA-512")
        return self


class KafkaConfig(_Section):
    """The broker. Any other key is a property of librdkafka and is passed on as it stands."""

    model_config = ConfigDict(
        extra="allow",
        frozen=True,
        alias_generator=_kebab,
        populate_by_name=True,
        hide_input_in_errors=True,
    )

    bootstrap_servers: str | None = Field(
        default=None,
        description="host:port, several separated by commas. Environment: KAFKA_BOOTSTRAP_SERVERS.",
    )
    security: KafkaSecurity | None = Field(default=None, description="How to log in to the broker.")

    @model_validator(mode="before")
    @classmethod
    def _only_librdkafka_beside(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        values = dict(values)
        if "bootstrap.servers" in values:
            if values.get("bootstrap-servers") is not None:
                raise ValueError("write bootstrap-servers or bootstrap.servers, not both")
            values["bootstrap-servers"] = values.pop("bootstrap.servers")
        for key in values:
            if "-" in str(key) and key not in ("bootstrap-servers", "security"):
                raise ValueError(
                    f"unknown key {key!r}; did you mean {str(key).replace('-', '.')!r} "
                    "(a property of librdkafka), 'bootstrap-servers' or 'security'?"
                )
        if values.get("security") is not None:
            twice = sorted(_SECURITY_PROPERTIES & values.keys())
            if twice:
                raise ValueError(f"{twice[0]} is beside security, which says the same; write one")
        return _checked_properties(values, known=("bootstrap-servers", "security"))

    @field_validator("bootstrap_servers", mode="before")
    @classmethod
    def _joined(cls, value: object) -> object:
        return ",".join(str(v) for v in value) if isinstance(value, list) else value

    def client_properties(self) -> dict[str, str]:
        """Everything as librdkafka's properties, `bootstrap.servers` included where it is set."""
        properties = {k: _text(v) for k, v in (self.model_extra or {}).items()}
        if self.bootstrap_servers is not None:
            properties["bootstrap.servers"] = self.bootstrap_servers
        if self.security is not None:
            named = {
                "security.protocol": self.security.protocol,
                "sasl.mechanism": self.security.mechanism,
                "sasl.username": self.security.username,
                "sasl.password": _secret(self.security.password),
                "ssl.ca.location": self.security.ca_location,
            }
            properties.update({k: v for k, v in named.items() if v is not None})
        return properties


class StorageConfig(_Section):
    """The object store. What isn't said here comes from the environment (AWS_...)."""

    endpoint: str | None = Field(default=None, description="URL of an S3 server. AWS_ENDPOINT_URL.")
    region: str | None = Field(default=None, description="AWS_REGION.")
    access_key: SecretStr | None = Field(default=None, description="AWS_ACCESS_KEY_ID.")
    secret_key: SecretStr | None = Field(default=None, description="AWS_SECRET_ACCESS_KEY.")
    session_token: SecretStr | None = Field(default=None, description="AWS_SESSION_TOKEN.")
    path_style_access: bool | None = Field(
        default=None, description="Bucket in the path instead of the host name."
    )
    allow_http: bool | None = Field(
        default=None, description="Allow http:// endpoints. AWS_ALLOW_HTTP."
    )

    def storage_options(self) -> dict[str, str]:
        """The options under the names that `bayou.table(storage_options=...)` takes."""
        values = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": self.region,
            "AWS_ACCESS_KEY_ID": _secret(self.access_key),
            "AWS_SECRET_ACCESS_KEY": _secret(self.secret_key),
            "AWS_SESSION_TOKEN": _secret(self.session_token),
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": (
                None if self.path_style_access is None else _text(not self.path_style_access)
            ),
            "AWS_ALLOW_HTTP": None if self.allow_http is None else _text(self.allow_http),
        }
        return {k: v for k, v in values.items() if v is not None}


class SparkConfig(_Section):
    """Spark. Any key but `master` is a Spark conf and is passed on as it stands."""

    model_config = ConfigDict(
        extra="allow", frozen=True, alias_generator=_kebab, hide_input_in_errors=True
    )

    master: str | None = Field(
        default=None, description="Spark master; local[*] where it isn't said."
    )

    @model_validator(mode="before")
    @classmethod
    def _only_spark_beside(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        for key in values:
            if not str(key).startswith("spark.") and key != "master":
                raise ValueError(
                    f"unknown key {key!r}; a Spark conf begins with 'spark.', 'master' is the only "
                    "other key"
                )
        if "spark.master" in values:
            values = dict(values)
            if values.get("master") is not None:
                raise ValueError("write master or spark.master, not both")
            values["master"] = values.pop("spark.master")
        return _checked_properties(values, known=("master",))

    def conf(self) -> dict[str, str]:
        """The Spark conf as texts."""
        return {k: _text(v) for k, v in (self.model_extra or {}).items()}


class DeltaConfig(_Section):
    """How the table is kept."""

    enable_schema_evolution: bool = Field(
        default=False,
        description="true: unknown fields become nullable columns in the commit of their rows; "
        "false: a record with unknown fields is a dead letter.",
    )
    checkpoint_interval: PositiveInt | None = Field(
        default=None, description="Commits between checkpoints: delta.checkpointInterval."
    )
    enable_upsert: bool = Field(
        default=False,
        description="true: one row for each key of key-columns, the newest; records without value "
        "delete their key. Without key-columns every record is appended.",
    )
    key_columns: tuple[str, ...] = Field(
        default=(), description="As destination.key-columns; write one of the two."
    )
    enable_optimize: bool = Field(
        default=False,
        description="true: small files of all partitions are packed, by the clock and after "
        "optimize-interval.",
    )
    optimize_interval: PositiveInt | None = Field(
        default=None,
        description="Records after which the table is optimized, once no others wait.",
    )
    enable_vacuum: bool = Field(
        default=False,
        description="true: once a day files are deleted that no version within the retention "
        "needs.",
    )
    vacuum_retention_hours: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="How long files stay that no version needs; not less than the table's own "
        "delta.deletedFileRetentionDuration, a week unless set, which it is by default.",
    )
    enable_compaction: bool = Field(
        default=False,
        description="true: small files of the partitions that were written since the last time "
        "are packed, by the clock and after compaction-interval.",
    )
    compaction_interval: PositiveInt | None = Field(
        default=None,
        description="Records after which written partitions are packed, once no others wait.",
    )


class DestinationConfig(_Section):
    """The Delta table that a topic goes to."""

    bucket: str | None = Field(
        default=None, description="Must be the bucket of table-path; forms it alone."
    )
    table_path: str | None = Field(
        default=None,
        description="s3://, s3a:// or a local path (relative to this file). "
        "Default: s3a://<bucket>/<table-name>.",
    )
    table_name: str | None = Field(
        default=None,
        description="Name in messages, views and SQL. Default: the last part of table-path.",
    )
    format: Literal["delta"] = Field(default="delta", description="delta is the only format.")
    partition_columns: tuple[str, ...] = Field(
        default=(),
        description="Partition columns. year, month and day are made from the event time where "
        "the record has no field of that name.",
    )
    key_columns: tuple[str, ...] = Field(
        default=(),
        description="Fields of the record that make a row the same row, for enable-upsert.",
    )
    ordering_column: str | None = Field(
        default=None,
        description="Field that says which record of a key is newer, for enable-upsert. Default, "
        "and where it is equal: Kafka's timestamp, then the offset.",
    )
    delta_config: DeltaConfig = Field(
        default_factory=DeltaConfig, description="How the table is kept."
    )

    @field_validator("format", mode="before")
    @classmethod
    def _only_delta(cls, value: object) -> object:
        if value != "delta":
            raise ValueError(
                f"format {value!r} isn't written: files without a transaction log can't be "
                "exactly once; write 'delta', any Delta reader opens it"
            )
        return value

    @field_validator("partition_columns", "key_columns")
    @classmethod
    def _distinct(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        folded = [v.lower() for v in value]
        for position, name in enumerate(folded):
            if name in folded[:position]:
                raise ValueError(f"column {value[position]!r} is named twice")
        return value

    @model_validator(mode="after")
    def _keys_agree(self) -> DestinationConfig:
        other = self.delta_config.key_columns
        if self.key_columns and other and self.key_columns != other:
            raise ValueError(
                "key-columns here and in delta-config differ; write them once, in destination"
            )
        return self

    @property
    def upsert_keys(self) -> tuple[str, ...]:
        """The key of an upsert; none where every record is appended."""
        if not self.delta_config.enable_upsert:
            return ()
        return self.key_columns or self.delta_config.key_columns

    @model_validator(mode="after")
    def _bucket_agrees(self) -> DestinationConfig:
        if self.table_path is None:
            if self.bucket is None or self.table_name is None:
                raise ValueError(
                    "table-path is missing (or bucket and table-name, which form it together)"
                )
            return self
        if self.bucket is None:
            return self
        scheme, separator, rest = self.table_path.partition("://")
        if not separator or scheme == "file":
            raise ValueError(
                f"bucket is {self.bucket!r} but table-path {self.table_path!r} is a local path; "
                f"write s3a://{self.bucket}/{self.table_path.lstrip('/')} or leave bucket out"
            )
        if rest.split("/", 1)[0] != self.bucket:
            raise ValueError(
                f"bucket is {self.bucket!r} but table-path lies in {rest.split('/', 1)[0]!r}; "
                "make them agree or leave bucket out"
            )
        return self

    @property
    def path(self) -> str:
        """Where the table is, as written; local paths aren't resolved yet."""
        return self.table_path or f"s3a://{self.bucket}/{self.table_name}"

    @property
    def name(self) -> str:
        """The table's name."""
        return self.table_name or self.path.rstrip("/").rsplit("/", 1)[-1]


class ProcessingConfig(_Section):
    """How records are grouped into commits."""

    batch_size: PositiveInt = Field(default=100_000, description="Records of a commit, at most.")
    flush_interval: Annotated[float, Field(gt=0)] = Field(
        default=60,
        description="Seconds after the first waiting record until a commit is made anyway.",
    )
    max_retries: Annotated[int, Field(ge=0)] = Field(
        default=3,
        description="Retries of a failed batch, and of brokers that don't answer, before the "
        "topic stops with an error.",
    )


class ObjectiveConfig(_Section):
    """What a topic promises to those who read its table."""

    freshness_seconds: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="A record is to be in the table within this time. Status page and metrics "
        "count when it isn't; the alert rules burn its error budget.",
    )


class MonitoringConfig(_Section):
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
        if self.enabled and self.token is None and not is_loopback(self.host):
            raise ValueError(
                f"host {self.host} can be reached from other machines; set token "
                '("${BAYOU_MONITORING_TOKEN}"), or leave host out to listen on 127.0.0.1'
            )
        return self


class TopicConfig(_Section):
    """One Kafka topic and its table."""

    kafka_topic: str = Field(description="Name of the Kafka topic.")
    schema_file: str | None = Field(
        default=None,
        description="JSON Schema of a record (draft-07 or 2020-12), relative to this file. "
        "Without it the schema is inferred from the first batch.",
    )
    starting_offsets: Literal["earliest", "latest"] = Field(
        default="earliest",
        description="Where to begin while the table covers nothing of the topic. The end that "
        "`latest` means is that of the first start.",
    )
    accept_restore: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="Version of the last RESTORE of the table that is meant: the pipeline goes on "
        "behind the offsets that the table covers, what was taken out stays out.",
    )
    event_time: str | None = Field(
        default=None,
        description="Timestamp or date field that gives year, month and day. "
        "Default, and where it is null: the record's Kafka timestamp. UTC.",
    )
    decode: Literal["json", "debezium", "avro", "protobuf", "csv", "string", "binary"] = Field(
        default="json",
        description="What a record's value is: a JSON object; Debezium's envelope (op, before, "
        "after) around one, which needs enable-upsert; Avro or Protobuf by connector."
        "schema-registry, Avro also by an .avsc as schema-file; a line of CSV, whose values "
        "schema-file names in order; a text or bytes, which become the column value.",
    )
    csv_delimiter: str = Field(default=",", min_length=1, max_length=1, description="Of csv.")
    flatten: str | None = Field(
        default=None,
        min_length=1,
        description="Nested fields become columns of their own, with this between the names: "
        '"_" makes place.city the column place_city.',
    )
    masks: dict[str, str] = Field(
        default_factory=dict,
        description="Fields made unreadable before anything is written, by their path: hash "
        "(SHA-256 in hex), drop (null), truncate:N (the first characters).",
    )
    kafka_columns: tuple[Literal["key", "headers", "timestamp"], ...] = Field(
        default=(),
        description="More of what Kafka says of a record, as columns: _kafka_key (binary), "
        "_kafka_headers (array of key and value), _kafka_timestamp.",
    )
    schema_policy: Literal["evolve", "freeze", "dead-letter"] | None = Field(
        default=None,
        description="A field that the table doesn't have: evolve adds a column, freeze leaves it "
        "out and says so, dead-letter refuses its record. Default: evolve with "
        "enable-schema-evolution, else dead-letter.",
    )
    destination: DestinationConfig = Field(description="The table.")
    processing: ProcessingConfig = Field(
        default_factory=ProcessingConfig,
        description="How records are grouped into commits.",
    )
    slo: ObjectiveConfig = Field(
        default_factory=ObjectiveConfig, description="What the topic promises to its readers."
    )

    @field_validator("masks")
    @classmethod
    def _are_masks(cls, value: dict[str, str]) -> dict[str, str]:
        for path, mask in value.items():
            if not re.fullmatch(r"hash|drop|truncate:[1-9][0-9]*", mask):
                raise ValueError(f"{path} is {mask!r}; write hash, drop, or truncate:3")
        return value

    @property
    def policy(self) -> Literal["evolve", "freeze", "dead-letter"]:
        """What becomes of a field that the table doesn't have."""
        if self.schema_policy is not None:
            return self.schema_policy
        evolves = self.destination.delta_config.enable_schema_evolution
        return "evolve" if evolves else "dead-letter"

    @model_validator(mode="after")
    def _policies_agree(self) -> TopicConfig:
        delta = self.destination.delta_config
        if self.schema_policy is None or "enable_schema_evolution" not in delta.model_fields_set:
            return self
        if (self.schema_policy == "evolve") != delta.enable_schema_evolution:
            raise ValueError(
                f"schema-policy {self.schema_policy} and enable-schema-evolution "
                f"{str(delta.enable_schema_evolution).lower()} say different things; leave "
                "enable-schema-evolution out"
            )
        return self

    @field_validator("kafka_topic")
    @classmethod
    def _is_topic(cls, value: str) -> str:
        if not _TOPIC_NAME.match(value):
            raise ValueError(
                f"{value!r} can't be a Kafka topic: 1 to 249 of letters, digits, '.', '_', '-'"
            )
        return value


class SchemaRegistryConfig(_Section):
    """The schema registry of Avro and Protobuf records."""

    url: str = Field(description="Such as http://localhost:8081.")
    username: str | None = Field(default=None, description="For basic authentication.")
    password: SecretStr | None = Field(default=None, description="For basic authentication.")


class MigrationConfig(_Section):
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


class MaintenanceConfig(_Section):
    """When tables are looked after by the clock; what is done to each its delta-config says."""

    schedule: str = Field(
        default="hourly",
        description="How often: hourly, daily, off, or a number with s, m or h, such as 15m.",
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


_SCHEDULES: dict[str, float | None] = {"hourly": 3600.0, "daily": 86400.0, "off": None}


class ConnectorConfig(_Section):
    """Everything under `connector`."""

    topics: Annotated[dict[str, TopicConfig], Field(min_length=1)] = Field(
        description="Topics by a name of your own, which messages and metrics use."
    )
    kafka: KafkaConfig = Field(default_factory=KafkaConfig, description="The broker.")
    storage: StorageConfig = Field(default_factory=StorageConfig, description="The object store.")
    spark: SparkConfig = Field(default_factory=SparkConfig, description="Spark.")
    schema_registry: SchemaRegistryConfig | None = Field(
        default=None, description="Where the schemas of Avro and Protobuf records are."
    )
    migration: MigrationConfig = Field(
        default_factory=MigrationConfig,
        description="JSON files that were there before the tables.",
    )
    maintenance: MaintenanceConfig = Field(
        default_factory=MaintenanceConfig, description="When tables are looked after by the clock."
    )
    monitoring: MonitoringConfig | None = Field(
        default=None,
        description="Metrics, health and the status page; no port opens without this section.",
    )
    state_path: str | None = Field(
        default=None,
        description="Local folder for locks and Spark's checkpoints; it may be deleted, the "
        "tables know where they stand. Default: .bayou beside this file. "
        "Environment: BAYOU_STATE_PATH.",
    )


class PipelineConfig(_Section):
    """The whole file."""

    connector: ConnectorConfig = Field(description="The pipeline.")


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _checked_properties(values: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Refuse a property of somebody else whose value isn't one text, number or boolean."""
    for key, value in values.items():
        if key not in known and (value is None or isinstance(value, dict | list)):
            raise ValueError(f"{key} must be a text, a number or a boolean")
    return values


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _secret(value: SecretStr | None) -> str | None:
    return None if value is None else value.get_secret_value()
