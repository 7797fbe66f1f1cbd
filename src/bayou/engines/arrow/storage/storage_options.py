"""Translates storage options with `deltalake`'s names to obstore's settings."""

from __future__ import annotations

import datetime as dt
import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from bayou.errors import ArgumentError

_SERVICES = {"s3": "aws_", "gs": "google_", "az": "azure_", "abfs": "azure_", "abfss": "azure_"}

_CLIENT_KEYS: Final = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_url",
        "proxy_ca_certificate",
        "proxy_excludes",
        "read_timeout",
        "timeout",
        "user_agent",
    }
)
_IGNORED: Final = frozenset(
    {"aws_s3_allow_unsafe_rename", "allow_unsafe_rename", "mount_allow_unsafe_rename"}
)
_RETRY_TIMEOUT: Final = dt.timedelta(seconds=60)
"""Default time limit for the retries of a request. The default of obstore is three minutes."""

_ENDPOINTS: Final = frozenset({"base_url", "endpoint", "endpoint_url", "storage_endpoint"})
_SEVERAL_LINES: Final = frozenset({"service_account_key", "proxy_ca_certificate"})
"""Options whose values may have several lines: JSON or certificates."""
_REQUEST_VARIABLES: Final = re.compile(
    r"(access_key_id|secret_access_key|session_token|token|region|endpoint|endpoint_url"
    r"|account_name|account_key|sas_key|sas_token|client_id|client_secret|tenant_id)\Z"
)
"""Regular expression that matches the end of the name of an environment variable whose value
obstore sends in requests."""
_KNOWN_KEYS: Final = {
    "aws_": ("endpoint_url", "region", "access_key_id", "secret_access_key", "session_token"),
    "azure_": ("storage_account_name", "storage_account_key", "storage_sas_token", "endpoint"),
    "google_": ("service_account", "service_account_key", "application_credentials", "base_url"),
}
"""Common options by the prefix of their service. Errors about an unknown option suggest them."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_URL = re.compile(r"https?://[^/\s]+(?:/\S*)?\Z", re.IGNORECASE)
_DURATION = re.compile(r"(\d{1,18})\s*(ms|s|m|)")
_MAX_DURATION_MS = 86_400_000
_MAX_RETRIES = 1_000_000
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "": 1000}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Arguments of `obstore.store.from_url`; `repr` hides them because they contain credentials."""

    config: dict[str, Any] = field(default_factory=dict, repr=False)
    client_options: dict[str, Any] = field(default_factory=dict, repr=False)
    retry_config: dict[str, Any] = field(default_factory=dict, repr=False)


def store_settings(
    scheme: str, options: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> StoreSettings:
    """Translate storage options to obstore's settings; options of other services are ignored."""
    prefix = _SERVICES[scheme]
    settings = StoreSettings(retry_config={"retry_timeout": _RETRY_TIMEOUT})
    variables = store_variables(scheme, environment)
    replaced = {key.lower() for key in options}
    for name, value in variables.items():
        if name.lower() not in replaced and _REQUEST_VARIABLES.search(name.lower()):
            _check_one_line(f"environment variable {name}", value)
        if name.lower() == f"{prefix}conditional_put" and name.lower() not in replaced:
            _check_conditional_put(f"environment variable {name}", value)
    for key, value in options.items():
        name = key.lower()
        if name in _IGNORED or _is_foreign(name, prefix):
            continue
        plain = name.removeprefix(prefix)
        if plain not in _SEVERAL_LINES:
            _check_one_line(f"storage option {name!r}", str(value))
        if plain == "s3_locking_provider":
            _check_locking(key, value)
        elif plain == "conditional_put":
            _check_conditional_put(f"storage option {key!r}", value)
            settings.config[name] = value
        elif plain in _CLIENT_KEYS:
            settings.client_options[plain] = value
        elif plain == "max_retries":
            settings.retry_config["max_retries"] = _number(key, value)
        elif plain == "retry_timeout":
            settings.retry_config["retry_timeout"] = _duration(key, value)
        else:
            settings.config[name] = value
    _complete_endpoint(settings, prefix, variables)
    return settings


def store_variables(scheme: str, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment variables for a URI scheme, such as `AWS_...` for `s3`.

    If `environment` is None, the variables of this process are used.
    """
    environment = os.environ if environment is None else environment
    prefix = _SERVICES[scheme]
    return {k: v for k, v in environment.items() if k.lower().startswith(prefix)}


def _complete_endpoint(
    settings: StoreSettings, prefix: str, environment: Mapping[str, str]
) -> None:
    """Check the endpoint's URL, and allow HTTP if the URL uses it.

    Unlike obstore, this function also reads `allow_http` from `environment`.
    """
    variables = {k.lower(): v for k, v in environment.items()}
    key, endpoint = "", ""
    for source in (variables, settings.config):
        for name, value in source.items():
            if name.removeprefix(prefix) in _ENDPOINTS and value:
                key, endpoint = name, str(value)
    overriding = variables.get("aws_endpoint_url_s3") if prefix == "aws_" else None
    if overriding and key in settings.config and overriding.rstrip("/") != endpoint.rstrip("/"):
        # obstore prefers this variable to any option, and has no option that replaces it.
        raise ArgumentError(
            f"environment variable AWS_ENDPOINT_URL_S3: the storage client would use it instead of "
            f"the storage option {key!r}, which has another URL. Unset the variable, or remove the "
            "option.",
            argument="storage_options",
        )
    if endpoint and not _is_url(endpoint):
        raise ArgumentError(
            f"storage option {key!r}: not a URL. Use a URL such as https://host:9000.",
            argument="storage_options",
        )
    if endpoint.startswith("http://"):
        settings.client_options.setdefault("allow_http", "true")
    elif allowed := variables.get(f"{prefix}allow_http"):
        settings.client_options.setdefault("allow_http", allowed)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return _URL.match(text) is not None and bool(parts.hostname) and parts.port != 0
    except ValueError:  # invalid host, port or brackets
        return False


def unknown_option(scheme: str, message: str) -> ArgumentError:
    """Return the error for an option that obstore doesn't know."""
    match = re.search(r"key: '([^']*)'", message)
    key = match.group(1) if match else ""
    known = [f"{_SERVICES[scheme]}{key}" for key in _KNOWN_KEYS[_SERVICES[scheme]]]
    close = difflib.get_close_matches(key.lower(), [*known, *sorted(_CLIENT_KEYS)], n=1)
    hint = f"Did you mean {close[0]!r}?" if close else "Remove the option."
    return ArgumentError(
        f"storage option {key!r}: unknown for {scheme}://. {hint}", argument="storage_options"
    )


def _is_foreign(name: str, prefix: str) -> bool:
    return any(name.startswith(p) for p in _SERVICES.values() if p != prefix)


def _check_one_line(source: str, value: str) -> None:
    # The value is sent in a request header, in which the HTTP client rejects control characters.
    if _CONTROL.search(value):
        raise ArgumentError(
            f"{source}: the value has a line break or another control character. Remove this "
            "character. If a command writes the value, use `printf %s` instead of `echo`, which "
            "appends a line break.",
            argument="storage_options",
        )


def _check_locking(key: str, value: str) -> None:
    if value.lower() not in {"", "none"}:
        raise ArgumentError(
            f"storage option {key!r}: locking isn't supported, because Bayou commits with "
            "conditional puts. Let all writers of a table use conditional puts, and remove the "
            "option.",
            argument="storage_options",
        )


def _check_conditional_put(source: str, value: str) -> None:
    if str(value).strip().lower() == "disabled":
        raise ArgumentError(
            f"{source}: the value turns off conditional puts, and without conditional puts, "
            "concurrent commits would replace each other. "
            "Remove the setting, or use a store that supports conditional puts.",
            argument="storage_options",
        )


def _number(key: str, value: str) -> int:
    try:
        number = int(value)
    except ValueError:
        number = -1
    if not 0 <= number <= _MAX_RETRIES:
        raise ArgumentError(
            f"storage option {key!r}: not an integer from 0 to {_MAX_RETRIES}. Use a number such "
            "as 10.",
            argument="storage_options",
        )
    return number


def _duration(key: str, value: str) -> dt.timedelta:
    match = _DURATION.fullmatch(str(value).strip())
    milliseconds = _MAX_DURATION_MS + 1
    if match is not None:
        milliseconds = int(match.group(1)) * _UNIT_MS[match.group(2)]
    if milliseconds > _MAX_DURATION_MS:
        raise ArgumentError(
            f"storage option {key!r}: not a duration of at most one day. Use a duration such as "
            "'30s'.",
            argument="storage_options",
        )
    return dt.timedelta(milliseconds=milliseconds)
