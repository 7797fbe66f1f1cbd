"""The base class for sections of the YAML file; it also checks properties and secrets."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, SecretStr, field_validator

from bayou.ingest.config.plaintext_secrets import is_secret
from bayou.redaction import is_secret_name, without_secrets

_SCALARS = (str, int, float, dt.date)
"""Types that YAML gives to an unquoted secret, such as an integer for `12345678`."""


def kebab(name: str) -> str:
    """Return the YAML key of a field: the field's name with `-` instead of `_`."""
    return name.replace("_", "-")


class SectionKeyError(ValueError):
    """The validation of a section failed because of one key of the section."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


class Section(BaseModel):
    """A section of the YAML file, with keys in kebab case. Unknown keys are an error."""

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
    def _check_control_characters(cls, value: Any) -> Any:
        """Raise an error for a secret with control characters, which HTTP headers can't contain."""
        if isinstance(value, SecretStr) and not value.get_secret_value().isprintable():
            raise ValueError(
                "the value has a line break or another control character; remove it "
                "(`echo` adds a line break to a secret, `printf %s` doesn't)"
            )
        return value

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Mask secrets in the properties of Kafka and Spark, and mask passwords in URLs."""
        for name, value in super().__repr_args__():
            secret = name is not None and (
                is_secret(name) or ("." in name and is_secret_name(name))
            )
            if secret and isinstance(value, _SCALARS) and not isinstance(value, bool):
                yield name, "**********"
            else:
                yield name, without_secrets(value) if isinstance(value, str) else value


def checked_properties(values: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Check the types of properties of Kafka or Spark, and return the properties unchanged.

    Args:
        known: keys that are fields of the section. They aren't checked.

    Raises:
        ValueError: a property isn't a string, a number or a boolean.
    """
    for key, value in values.items():
        if key not in known and (value is None or isinstance(value, dict | list)):
            raise ValueError(f"{key} must be a string, a number or a boolean")
    return values


def property_text(value: object) -> str:
    """Convert a property's value to a string for librdkafka or Spark, such as `true`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def in_clear(value: SecretStr | None) -> str | None:
    """Return the plaintext of a secret; None if `value` is None."""
    return None if value is None else value.get_secret_value()
