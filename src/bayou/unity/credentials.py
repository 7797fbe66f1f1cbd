"""Temporary credentials that the catalog vends for a location, renewed before they expire."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

from bayou.errors import CatalogError
from bayou.unity.wire import StorageCredential


class VendedCredentials:
    """A credential provider for obstore that gets temporary credentials from the catalog.

    obstore calls the provider before the first request, and again five minutes before the
    credentials expire.

    Args:
        name: name of the table, for error messages.
        location: the table's location.
        request: function that requests credentials from the catalog.
    """

    def __init__(
        self, name: str, location: str, request: Callable[[], Sequence[StorageCredential]]
    ) -> None:
        self._name = name
        self._location = location
        self._request = request

    def __repr__(self) -> str:
        return f"VendedCredentials({self._name!r})"

    def __call__(self) -> dict[str, Any]:
        try:
            vended = self._request()
        except CatalogError as error:
            raise CatalogError(
                f"credentials of {self._name}: the catalog vends none. "
                f"{error.message.removeprefix(f'{self._name}: ')}",
                path=self._location,
                status=error.status,
                code=error.code,
            ) from None
        matching = [c for c in vended if _is_below(self._location, c.prefix)]
        credential = max(matching, key=lambda c: len(c.prefix), default=None)
        values = None if credential is None else _obstore_values(credential)
        if credential is None or values is None:
            raise CatalogError(
                f"credentials of {self._name}: the catalog vends none for {self._location}. Check "
                "the storage credentials in the catalog's configuration.",
                path=self._location,
            )
        expiry = credential.expiration_time_ms
        values["expires_at"] = (
            None if expiry is None else dt.datetime.fromtimestamp(expiry / 1000, dt.UTC)
        )
        return values


def _obstore_values(credential: StorageCredential) -> dict[str, Any] | None:
    """Return the key or token of a credential under obstore's names.

    Returns None if the credential has neither a key nor a token.
    """
    config = credential.config
    if key := config.get("s3.access-key-id"):
        values = {
            "access_key_id": key,
            "secret_access_key": config.get("s3.secret-access-key") or "",
        }
        token = config.get("s3.session-token")
        return values if token is None else {**values, "token": token}
    if token := config.get("azure.sas-token"):
        return {"sas_token": token}
    if token := config.get("gcs.oauth-token"):
        return {"token": token}
    return None


def _is_below(location: str, prefix: str) -> bool:
    path, root = _comparable(location), _comparable(prefix)
    return path == root or path.startswith(f"{root}/")


def _comparable(location: str) -> str:
    scheme, _, rest = location.rstrip("/").partition("://")
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}://{rest}"
