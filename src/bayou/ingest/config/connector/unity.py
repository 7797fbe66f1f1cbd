"""The Unity Catalog server in which a pipeline registers its tables."""

from __future__ import annotations

import os

from pydantic import Field, SecretStr, field_validator

from bayou.errors import ArgumentError
from bayou.ingest.config.base_section import Section, in_clear
from bayou.unity.names import TableName
from bayou.unity.settings import TOKEN, URI, UnitySettings, unity_settings


class UnityConfig(Section):
    """A Unity Catalog server, and the schema of the tables."""

    uri: str | None = Field(
        default=None,
        description="URL of the server, such as https://host:8080. Environment: UC_URI.",
    )
    token: SecretStr | None = Field(
        default=None,
        description="Bearer token; a server without authentication needs none. Environment: "
        "UC_TOKEN.",
    )
    catalog: str = Field(description="Catalog of the tables. It must exist.")
    schema_name: str = Field(
        default="default",
        alias="schema",
        description="Schema of the tables. It must exist. A table-name such as web.events "
        "overrides it.",
    )

    @field_validator("uri")
    @classmethod
    def _is_url(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                UnitySettings.of(value, None)
            except ArgumentError:
                raise ValueError(
                    "the address must be a URL without a user, such as https://host:8080"
                ) from None
        return value

    def options(self) -> dict[str, str]:
        """Return the address and the token as storage options."""
        values = {URI: self.uri, TOKEN: in_clear(self.token)}
        return {name: value for name, value in values.items() if value}

    def settings(self) -> UnitySettings:
        """Return the address and the token, from this section or from the environment.

        Raises:
            ArgumentError: the address is missing or isn't a URL.
        """
        return unity_settings(self.options())

    def problem(self) -> str | None:
        """Return a message if neither this section nor the environment has the address.

        Otherwise, return None.
        """
        if self.uri is None and not (os.environ.get(URI) or os.environ.get("DATABRICKS_HOST")):
            return f"unity.uri is missing; write the server's address or set {URI}"
        return None

    def table_name(self, name: str) -> TableName:
        """Return the full name of a table.

        Raises:
            ValueError: the catalog can't have a table of this name.
        """
        parts = name.split(".")
        defaults = [self.catalog, self.schema_name]
        try:
            return TableName.parse(f"uc://{'.'.join([*defaults[: 3 - len(parts)], *parts])}")
        except ArgumentError:
            raise ValueError(
                f"{name!r} can't be the name of a table in Unity Catalog; write NAME, "
                "SCHEMA.NAME or CATALOG.SCHEMA.NAME, without spaces and slashes"
            ) from None
