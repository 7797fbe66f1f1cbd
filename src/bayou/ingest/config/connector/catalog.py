"""The catalog in which a pipeline registers its tables by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from pydantic import Field, field_validator, model_validator

from bayou.ingest.config.base_section import Section
from bayou.ingest.config.connector.unity import UnityConfig
from bayou.protocol.sql import quote_identifier

URIS = ("spark.hadoop.hive.metastore.uris", "spark.hive.metastore.uris", "hive.metastore.uris")
"""Spark confs that can contain the address of a Hive metastore."""

IMPLEMENTATION = "spark.sql.catalogImplementation"

_NAME = re.compile(r"\w+\Z")
_URI = re.compile(r"thrift://[^\s/@:]+:\d+\Z")


class CatalogConfig(Section):
    """The catalog in which the tables are registered by table-name."""

    type: Literal["hive", "session"] = Field(
        default="hive",
        description="hive: a Hive metastore. session: the session catalog that "
        "connector.spark configures, such as AWS Glue with its Hive client.",
    )
    uris: str | None = Field(
        default=None,
        description="For hive: address of the metastore, thrift://HOST:PORT, or several addresses "
        "separated by commas. Default: spark.hadoop.hive.metastore.uris of connector.spark.",
    )
    database: str = Field(
        default="default",
        description="Database of the tables. It must exist. A table-name such as db.events "
        "overrides it.",
    )
    unity: UnityConfig | None = Field(
        default=None,
        description="Unity Catalog. The tables are registered there as external tables, instead of "
        "in a Hive metastore or the session catalog.",
    )

    @field_validator("uris")
    @classmethod
    def _check_uris(cls, value: str | None) -> str | None:
        for uri in () if value is None else value.split(","):
            if _URI.match(uri.strip()) is None:
                raise ValueError("each address must have the form thrift://HOST:PORT")
        return value

    @field_validator("database")
    @classmethod
    def _check_database(cls, value: str) -> str:
        if _NAME.match(value) is None:
            raise ValueError(f"{value!r} isn't a valid name; use letters, digits and underscores")
        return value

    @model_validator(mode="after")
    def _check_unity(self) -> CatalogConfig:
        others = sorted(self.model_fields_set - {"unity"})
        if self.unity is not None and others:
            names = ", ".join(others)
            raise ValueError(f"{names} can't be used with unity; remove either {names} or unity")
        return self

    @model_validator(mode="after")
    def _check_uris_are_used(self) -> CatalogConfig:
        if self.uris is not None and self.type != "hive":
            raise ValueError("uris is only used with type: hive; remove uris, or set type: hive")
        return self

    def spark_conf(self) -> dict[str, str]:
        """Return the Spark confs that this section sets."""
        if self.type != "hive" or self.unity is not None:
            return {}
        conf = {IMPLEMENTATION: "hive"}
        return conf if self.uris is None else {**conf, URIS[0]: self.uris}

    def problem(self, conf: Mapping[str, str]) -> str | None:
        """Return a message if a key of this section is missing or contradicts `conf`; else None.

        Args:
            conf: the Spark confs of `connector.spark`, which can also have the metastore's address.
        """
        if self.unity is not None:
            return self.unity.problem()
        known = next((conf[key] for key in URIS if key in conf), None)
        if self.type != "hive":
            return None
        if self.uris is None and known is None:
            return "uris is missing; write the metastore's address, thrift://HOST:PORT"
        if self.uris is not None and known is not None and known != self.uris:
            return "uris differs from hive.metastore.uris in connector.spark; write one of them"
        return None

    def qualified_name(self, table_name: str) -> str:
        """Return the name with which a table is registered in the catalog.

        The name is quoted and includes the database. With `unity`, the name is a `uc://` URI.

        Raises:
            ValueError: the catalog can't have a table of this name.
        """
        if self.unity is not None:
            return str(self.unity.table_name(table_name))
        parts = table_name.split(".")
        if len(parts) > 2 or not all(map(_NAME.match, parts)):
            raise ValueError(
                f"{table_name!r} can't be the name of a table in a catalog; write a table-name of "
                "letters, digits and underscores, or DATABASE.NAME"
            )
        return ".".join(
            map(quote_identifier, parts if len(parts) == 2 else [self.database, *parts])
        )
