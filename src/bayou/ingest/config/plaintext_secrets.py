"""Detection of plaintext secrets in a configuration file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bayou.ingest.config.document import Document, KeyPath

_SECRET = re.compile(
    r"(^|[.-])(password|passphrase|secret|secret-key|secret\.key|session-token|session\.token|token"
    r"|account-key|key\.pem|keystore\.key|jaas\.config|oauthbearer\.config)$"
)
_SECTIONS_WITHOUT_SECRETS = ("topics", "migration")
"""Sections of `connector` that aren't searched, because their keys are topics and fields."""


def is_secret(key: str) -> bool:
    """Whether a key's name indicates a secret."""
    return _SECRET.search(key) is not None


def clear_secrets(document: Document) -> Iterator[KeyPath]:
    """Yield the key path of each secret that the file contains as plaintext."""
    for path in document.lines:
        if path[1:2] and path[1] in _SECTIONS_WITHOUT_SECRETS:
            continue
        if is_secret(str(path[-1])) and path in document.literal_values:
            yield path
