"""Secrets in text: one function removes them from whatever is shown.

`BayouError` passes every message through it, the command line every line that isn't a table's rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["HIDDEN", "is_panic", "names_secret", "without_secrets"]

HIDDEN = "***"
"""What stands where a secret was."""

_SHORTEST = 4
"""A known value with fewer characters is no secret, and removing it would spoil the text."""

_NAME = (
    r"(?:password|passphrase|passwd|secret|secret[._-]?(?:access[._-]?)?key|signature"
    r"|account[._-]?key(?:\.[\w.-]{1,200})?|sas[._-]?(?:key|token)|token|key\.pem"
    r"|(?:api|access|private)[._-]?key|credentials?|pwd)"
)
_QUOTED = r"(?:\\?\"(?:[^\"\\]|\\.){0,4000}?\\?\"|'[^']{0,4000}'(?:'[^']{0,4000}')*)"
_SETTING = re.compile(
    r"password|passphrase|passwd|pwd|secret|token|credential|sas|jaas|basic\.auth\.user"
    r"|(?:access|account|api|private|encryption|customer|keystore)[._-]?key",
    re.IGNORECASE,
)
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # user:password@host: up to the last @, for a password may hold any character; a port is none
    (re.compile(r"(\w://)[^\s/:@?#]*:(?!\d+(?:[/?#\s'\",]|$))\S{0,2000}@"), rf"\1{HIDDEN}@"),
    # a token as the user; abfss://container@account has none
    (re.compile(r"(\bhttps?://)[^\s/?#]{1,2000}@", re.IGNORECASE), rf"\1{HIDDEN}@"),
    # name=value of a query, of a connection string, of JAAS
    (
        re.compile(
            rf"((?:{_NAME}|\bsig)=)(?!(?:\*\*\*|\.\.\.)(?:[\s&;,'\")]|$))"
            rf"(?:{_QUOTED}|[^\s&;,'\")]+)",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
    # "name": "value" of JSON and of Python, name = "value"
    (
        re.compile(
            rf"((?:{_NAME}\\?[\"']\s{{0,9}}[:=]\s{{0,9}}|{_NAME}\s{{1,9}}=\s{{0,9}})){_QUOTED}",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
    # name -> value of Scala
    (re.compile(rf"({_NAME} -> )[^\s,)]+", re.IGNORECASE), rf"\1{HIDDEN}"),
    (
        re.compile(
            r"(\b(?:Authorization\\?[\"']?\s{0,9}[:=]\s{0,9}\\?[\"']?"
            r"(?:Basic|Bearer|Digest|Negotiate) +"
            r"|x-(?:amz-security-token|api-key)\\?[\"']?: {0,9}[\"']?))[^\s'\",]+",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
    (
        re.compile(r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----).*?(?=-----END|\Z)", re.DOTALL),
        rf"\1{HIDDEN}",
    ),
)


_MAY_HOLD = re.compile(r"://|=|:|->|-----BEGIN")


def without_secrets(text: str, known: Iterable[str] = ()) -> str:
    """A text without passwords in URLs, without values named as secrets, without known values.

    Args:
        known: values that must not be shown, such as those of storage options.

    Example:
        >>> without_secrets("can't reach http://bob:hunter2@host:9000/")
        "can't reach http://***@host:9000/"
    """
    for value in sorted(known, key=len, reverse=True):
        if len(value) >= _SHORTEST:
            text = text.replace(value, HIDDEN)
    if _MAY_HOLD.search(text):
        for pattern, shown in _PATTERNS:
            text = pattern.sub(shown, text)
    return text


def names_secret(key: str) -> bool:
    """Whether the name of a setting, such as a Spark conf, says that its value is a secret."""
    return _SETTING.search(key) is not None


def is_panic(error: BaseException) -> bool:
    """Whether a library written in Rust panicked: no `Exception`, so that handlers don't see it."""
    return type(error).__name__ == "PanicException" and not isinstance(error, Exception)
