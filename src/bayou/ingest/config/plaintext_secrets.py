"""Secrets that stand in a file as they are, where everybody who reads the file reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bayou.ingest.config.document import Document, KeyPath

__all__ = ["clear_secrets", "is_secret"]

_SECRET = re.compile(
    r"(^|[.-])(password|passphrase|secret|secret-key|secret\.key|session-token|session\.token|token"
    r"|key\.pem|keystore\.key|jaas\.config|oauthbearer\.config)$"
)
_NAMES_OF_OTHERS = ("topics", "migration")
"""Sections of `connector` without a secret; keys in them are fields and topics (`masks`)."""


def is_secret(key: str) -> bool:
    """Whether a key's name says that its value is a secret."""
    return _SECRET.search(key) is not None


def clear_secrets(document: Document) -> Iterator[KeyPath]:
    """Paths of keys whose name says a secret, and whose value isn't taken from the environment.

    What came by `--set` or from the environment stands in no file.
    """
    for path in document.lines:
        if path[1:2] and path[1] in _NAMES_OF_OTHERS:
            continue
        if is_secret(str(path[-1])) and path in document.clear_texts:
            yield path
