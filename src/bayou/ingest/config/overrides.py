"""What stands outside of the file: `--set key=value`, and the environment where it is silent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ruamel.yaml.error import YAMLError

from bayou.errors import ConfigurationError
from bayou.ingest.config.document import FREE_SECTIONS, Document, KeyPath, load_yaml

__all__ = ["ENVIRONMENT_KEYS", "apply_environment", "apply_overrides"]

ENVIRONMENT_KEYS: Mapping[str, tuple[str, ...]] = {
    "KAFKA_BOOTSTRAP_SERVERS": ("connector", "kafka", "bootstrap-servers"),
    "AWS_ENDPOINT_URL": ("connector", "storage", "endpoint"),
    "AWS_REGION": ("connector", "storage", "region"),
    "AWS_ACCESS_KEY_ID": ("connector", "storage", "access-key"),
    "AWS_SECRET_ACCESS_KEY": ("connector", "storage", "secret-key"),
    "AWS_ALLOW_HTTP": ("connector", "storage", "allow-http"),
    "BAYOU_STATE_PATH": ("connector", "state-path"),
}
"""Environment variables, and the key each stands in for where the file doesn't have it."""


def apply_overrides(
    document: Document, settings: Sequence[str], environment: Mapping[str, str]
) -> None:
    """Write each `key=value` into the document; the value is read as YAML, with its variables.

    Keys of the configuration that have dots in them (topic names, librdkafka properties) are
    found as they stand.

    Raises:
        ConfigurationError: not `key=value`, or the key leads through something without keys.
    """
    for setting in settings:
        key, separator, text = setting.partition("=")
        if not separator or not key.strip("."):
            shown = key if separator else re.split(r"[:\s]", setting, maxsplit=1)[0]
            raise _error(shown, "must have the form key=value")
        try:
            value = load_yaml(text) if text else ""
        except YAMLError:
            # Without a cause: it quotes the value.
            raise _error(key, "the value isn't one that YAML can read; quote it") from None
        if not isinstance(value, str | dict | list | None):
            value = text  # a number or a boolean only where the key asks for one
        path = _put(document.values, key.split("."), None, key)
        document.elsewhere[path] = f"--set {key}"
        _put(document.values, key.split("."), document.substituted(value, path, environment), key)


def apply_environment(document: Document, environment: Mapping[str, str]) -> None:
    """Fill in what the document doesn't say from the variables of `ENVIRONMENT_KEYS`."""
    for variable, path in ENVIRONMENT_KEYS.items():
        text = environment.get(variable)
        if not text:
            continue
        section: Any = document.values
        for part in path[:-1]:
            if section.get(part) is None:
                section[part] = {}
            section = section[part]
            if not isinstance(section, dict):
                break
        else:
            if all(section.get(key) is None for key in _same(path[-1])):
                section[path[-1]] = text
                document.elsewhere[path] = f"environment variable {variable}"


def _same(key: str) -> tuple[str, ...]:
    """The names that a key can have."""
    return (key, "bootstrap.servers") if key == "bootstrap-servers" else (key,)


def _put(values: dict[str, Any], parts: list[str], value: object, setting: str) -> KeyPath:
    """Put it where the parts lead; gives the path that they are."""
    section: Any = values
    walked: tuple[str, ...] = ()
    while parts:
        if not isinstance(section, dict):
            raise _error(setting, f"{'.'.join(walked)} has no keys below it")
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
