"""A section of the pipeline's YAML, and what sections share: properties of others, secrets."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, SecretStr, field_validator

from bayou.ingest.config.plaintext_secrets import is_secret

__all__ = ["Section", "checked_properties", "in_clear", "kebab", "property_text"]


def kebab(name: str) -> str:
    """A field's name as the YAML writes it."""
    return name.replace("_", "-")


class Section(BaseModel):
    """A mapping of the YAML: kebab-case keys, unknown ones refused."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=kebab,
        populate_by_name=True,
        hide_input_in_errors=True,
        allow_inf_nan=False,
    )

    @field_validator("*")
    @classmethod
    def _is_one_line(cls, value: Any) -> Any:
        """A line break of a secret would go into headers and logins."""
        if isinstance(value, SecretStr) and not value.get_secret_value().isprintable():
            raise ValueError(
                "the value has a line break or another control character; write it without "
                "(`echo` adds a line break to a secret, `printf %s` doesn't)"
            )
        return value

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Properties of others may hold secrets, too."""
        for name, value in super().__repr_args__():
            secret = name is not None and isinstance(value, str) and is_secret(name)
            yield name, "**********" if secret else value


def checked_properties(values: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Refuse a property of somebody else whose value isn't one text, number or boolean."""
    for key, value in values.items():
        if key not in known and (value is None or isinstance(value, dict | list)):
            raise ValueError(f"{key} must be a text, a number or a boolean")
    return values


def property_text(value: object) -> str:
    """A property's value as Kafka's client and Spark take it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def in_clear(value: SecretStr | None) -> str | None:
    """A secret for whom it is meant."""
    return None if value is None else value.get_secret_value()
