"""Separates credentials in storage options from credentials in the environment.

The storage client (obstore) merges storage options with environment variables, and chooses one kind
of credentials from the result. The result may contain secrets from both. For example, obstore sends
an access key from the options with a session token from the environment. The store would then
receive a secret of another store, and would reject the request. In Bayou, credentials in the
options replace all credentials in the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import unquote

from bayou.errors import ArgumentError

_ACCESS_KEY = ("aws_access_key_id", "access_key_id")
_SECRET = ("aws_secret_access_key", "secret_access_key")
_SESSION_TOKEN = ("aws_session_token", "session_token", "aws_token", "token")

_ACCOUNT_KEY = (
    *("azure_storage_account_key", "azure_storage_access_key", "azure_storage_master_key"),
    *("account_key", "access_key", "master_key"),
)
_SIGNATURE = ("azure_storage_sas_token", "azure_storage_sas_key", "sas_token", "sas_key")
_BEARER = ("azure_storage_token", "bearer_token", "token")
_CLIENT = ("azure_storage_client_id", "azure_client_id", "client_id")
_PREFERRED = (*_BEARER, *_ACCOUNT_KEY)
"""Azure options with credentials that obstore prefers to a service principal if both are set."""

_OTHERS = (
    *_PREFERRED,
    *_CLIENT,
    *_SIGNATURE,
    *("azure_storage_client_secret", "azure_client_secret", "azure_federated_token_file"),
)


def option_credentials(
    scheme: str, config: Mapping[str, str], variables: Mapping[str, str]
) -> Callable[[], Any] | None:
    """Return a credential provider that keeps obstore from using credentials of the environment.

    The provider returns the credentials in the storage options. If obstore doesn't mix these
    credentials with credentials of the environment, no provider is needed, and the result is None.

    Args:
        config: storage options, with names in lower case.
        variables: environment variables of the scheme's service.

    Raises:
        ArgumentError: the options have a service principal of Azure, and obstore would use the
            credentials of the environment instead.
    """
    known = {name.lower(): name for name, value in variables.items() if value}
    if scheme == "s3":
        return _access_key(config, variables)
    if scheme == "gs" or not _any(known, _OTHERS):
        return None
    if token := _first(config, _BEARER):
        return partial(dict, token=token, expires_at=None)
    if key := _first(config, _ACCOUNT_KEY):
        return partial(dict, access_key=key, expires_at=None)
    if _first(config, _CLIENT):
        if variable := _any(known, _PREFERRED):
            raise ArgumentError(
                f"environment variable {variable}: it conflicts with the service principal in the "
                "storage options. Unset the variable, or remove azure_client_id from the options.",
                argument="storage_options",
            )
        return None
    if signature := _first(config, _SIGNATURE):
        return partial(dict, sas_token=_parameters(signature), expires_at=None)
    return None


def _access_key(
    config: Mapping[str, str], variables: Mapping[str, str]
) -> Callable[[], Any] | None:
    known = {name.lower(): value for name, value in variables.items()}
    key, secret = _first(config, _ACCESS_KEY), _first(config, _SECRET)
    if not key or not secret or _first(config, _SESSION_TOKEN) or not _first(known, _SESSION_TOKEN):
        return None
    if key == _first(known, _ACCESS_KEY):  # the session token belongs to this key
        return None
    return partial(dict, access_key_id=key, secret_access_key=secret, token=None, expires_at=None)


def _parameters(signature: str) -> list[tuple[str, str]]:
    """Return the decoded parameters of a shared access signature; a `+` stays a `+`."""
    pairs = (part.partition("=") for part in signature.removeprefix("?").split("&") if part)
    return [(unquote(name), unquote(value)) for name, _, value in pairs]


def _first(options: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((options[name] for name in names if options.get(name)), None)


def _any(known: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((known[name] for name in names if name in known), None)
