"""Applies `--set key=value` overrides and environment variables to a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ruamel.yaml.error import YAMLError

from bayou.errors import ConfigurationError
from bayou.ingest.config.document import FREE_SECTIONS, Document, KeyPath, load_yaml

ENVIRONMENT_KEYS: Mapping[str, tuple[str, ...]] = {
    "KAFKA_BOOTSTRAP_SERVERS": ("connector", "kafka", "bootstrap-servers"),
    "AWS_ENDPOINT_URL": ("connector", "storage", "endpoint"),
    "AWS_REGION": ("connector", "storage", "region"),
    "AWS_ACCESS_KEY_ID": ("connector", "storage", "access-key"),
    "AWS_SECRET_ACCESS_KEY": ("connector", "storage", "secret-key"),
    "AWS_ALLOW_HTTP": ("connector", "storage", "allow-http"),
    "BAYOU_STATE_PATH": ("connector", "state-path"),
}
"""For each environment variable, the key whose default value it sets."""


def apply_overrides(
    document: Document, settings: Sequence[str], environment: Mapping[str, str]
) -> None:
    """Set the `key=value` overrides in the document.

    Each value is parsed as YAML and can contain variables such as `${NAME}`. Each dot in a key
    separates a section from its subsections and keys. As an exception, an existing key can contain
    dots itself, such as a librdkafka property.

    Raises:
        ConfigurationError: an override isn't `connector.KEY=VALUE`, its value isn't valid YAML, or
            a parent of its key isn't a section. The message never contains the value.
            It contains the key only if the key begins with `connector.`, because any other text may
            be a secret.
    """
    for number, setting in enumerate(settings, start=1):
        key, separator, text = setting.partition("=")
        if not separator or not key.startswith("connector."):
            # The message doesn't contain the argument, which may be a secret.
            raise ConfigurationError(
                f"--set: argument {number} must have the form KEY=VALUE, with a key such as "
                "connector.kafka.bootstrap-servers",
                file="--set",
            )
        try:
            value = load_yaml(text) if text else ""
        except YAMLError:
            # `from None`: the cause contains the value.
            raise _error(key, "the value isn't valid YAML; quote it") from None
        if not isinstance(value, str | dict | list | None):
            value = text  # validation converts numbers and booleans
        path = _put(document.values, key.split("."), None, key)
        document.elsewhere[path] = f"--set {key}"
        _put(document.values, key.split("."), document.substituted(value, path, environment), key)


def apply_environment(document: Document, environment: Mapping[str, str]) -> None:
    """For each variable in `ENVIRONMENT_KEYS`, set its key if the key has no value."""
    for variable, path in ENVIRONMENT_KEYS.items():
        value = environment.get(variable)
        if not value:
            continue
        section: Any = document.values
        for part in path[:-1]:
            if section.get(part) is None:
                section[part] = {}
            section = section[part]
            if not isinstance(section, dict):
                break
        else:
            if all(section.get(key) is None for key in _aliases(path[-1])):
                section[path[-1]] = value
                document.elsewhere[path] = f"environment variable {variable}"


def _aliases(key: str) -> tuple[str, ...]:
    """Return all spellings of a key; only `bootstrap-servers` has two."""
    return (key, "bootstrap.servers") if key == "bootstrap-servers" else (key,)


def _put(values: dict[str, Any], parts: list[str], value: object, setting: str) -> KeyPath:
    """Set a value, and return its key path.

    Args:
        parts: the key of the override, split at each dot. Consecutive parts that form an existing
            key with dots, such as a librdkafka property, are joined again.
        setting: the key of the override, for error messages.
    """
    section: Any = values
    walked: tuple[str, ...] = ()
    while parts:
        if not isinstance(section, dict):
            reason = f"{'.'.join(walked)} isn't a section and has no keys; correct the key"
            raise _error(setting, reason)
        key = _existing_key(section, parts)
        if key is None:
            free = walked in FREE_SECTIONS and parts[0] != "security"
            key = ".".join(parts) if free else parts[0]
        parts = parts[key.count(".") + 1 :]
        if not parts:
            section[key] = value
            return (*walked, key)
        if section.get(key) is None:
            section[key] = {}
        section = section[key]
        walked = (*walked, key)
    raise _error(setting, "names no key")


def _existing_key(section: Mapping[str, Any], parts: Sequence[str]) -> str | None:
    for length in range(len(parts), 0, -1):
        candidate = ".".join(parts[:length])
        if candidate in section:
            return candidate
    return None


def _error(setting: str, reason: str) -> ConfigurationError:
    return ConfigurationError(f"--set {setting}: {reason}", file="--set", key=setting)
