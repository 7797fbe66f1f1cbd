"""Resolves table paths, and derives the paths of the auxiliary tables of a target."""

from __future__ import annotations

import os
from pathlib import Path

from bayou.engines.arrow.storage.object_uris import is_local_path, split_object_uri
from bayou.errors import ArgumentError
from bayou.redaction import without_secrets


def normalized_table_path(table_path: str) -> str:
    """Normalize a table path for comparisons: `s3a://a/b` and `s3://a/b` become equal."""
    if _is_uri(table_path):
        return "/".join(split_object_uri(table_path)).rstrip("/")
    return table_path


def resolve_path(table_path: str, folder: Path) -> str:
    """Return the absolute path of a table, or the URI without a final `/` if the path is a URI.

    Args:
        folder: the folder to which a relative path is relative.

    Raises:
        ArgumentError: the URI isn't a path in an object store. Or the URI contains a secret, which
            messages and logs would show.
    """
    if _is_uri(table_path):
        split_object_uri(table_path)
        if "?" in table_path and without_secrets(table_path) != table_path:
            raise ArgumentError(
                f"{without_secrets(table_path)}: a path can't contain a token or a signature. Set "
                "the store's credentials in connector.storage or in the environment.",
                argument="path",
            )
        return table_path.rstrip("/")
    table_path = table_path.removeprefix("file://").removeprefix("file:")
    return os.path.realpath(folder / Path(table_path).expanduser())


def _is_uri(table_path: str) -> bool:
    return not is_local_path(table_path)


def ledger_path(table_path: str) -> str:
    """Return the path of the migration ledger of a target table."""
    return f"{table_path.rstrip('/')}_migration"


def dead_letters_path(table_path: str) -> str:
    """Return the path of the dead letter table of a target table."""
    return f"{table_path.rstrip('/')}_dead_letters"


def deleted_keys_path(table_path: str) -> str:
    """Return the path of the table that stores the deleted keys of a target table."""
    return f"{table_path.rstrip('/')}_deleted_keys"
