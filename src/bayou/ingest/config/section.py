"""Base class of the sections of the pipeline's YAML, with validation of properties and secrets."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, SecretStr, field_validator

from bayou.ingest.config.plaintext_secrets import is_secret

__all__ = ["Section", "checked_properties", "in_clear", "kebab", "property_text"]


def kebab(name: str) -> str:
    """Return a field's name in kebab case."""
    return name.replace("_", "-")


class Section(BaseModel):
    """A mapping of the YAML with kebab-case keys; unknown keys are refused."""

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
        """Refuse line breaks in secrets, which would end up in headers and logins."""
        if isinstance(value, SecretStr) and not value.get_secret_value().isprintable():
            raise ValueError(
                "the value has a line break or another control character; remove it "
                "(`echo` adds a line break to a secret, `printf %s` doesn't)"
            )
        return value

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Mask secrets in properties of Kafka and Spark."""
        for name, value in super().__repr_args__():
            secret = name is not None and isinstance(value, str) and is_secret(name)
            yield name, "**********" if secret else value


def checked_properties(values: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Check that properties of Kafka or Spark are strings, numbers or booleans."""
    for key, value in values.items():
        if key not in known and (value is None or isinstance(value, dict | list)):
            raise ValueError(f"{key} must be a string, a number or a boolean")
    return values


def property_text(value: object) -> str:
    """Return a property's value as a string for Kafka's client and Spark."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def in_clear(value: SecretStr | None) -> str | None:
    """Return the plaintext of a secret."""
    return None if value is None else value.get_secret_value()
