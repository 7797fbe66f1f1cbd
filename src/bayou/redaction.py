"""Removal of secrets from text that is displayed or logged.

`without_secrets` is applied to every `BayouError` and to all output of the command line, except
that rows of tables are displayed unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

HIDDEN = "***"
"""Text that replaces a secret."""

_MIN_SECRET_LENGTH = 4
"""Minimum length of a secret that `without_secrets` masks. Shorter ones would garble the text."""

_LONG_SECRET_LENGTH = 12
"""Minimum length of a secret that is also masked inside words; shorter ones may be common words."""

_START = r"(?:(?<![^\W_])|(?<=%[0-9A-Fa-f]{2})|(?<=\\[nrt]))"
_END = r"(?![^\W_])"
"""`_START` and `_END` match the boundaries of a word, which consists of letters and digits.

An escape such as `%3D` or `\\n` isn't part of a word.
"""

_NAME = (
    r"(?:password|passphrase|passwd|secret|secret[._-]?(?:access[._-]?)?key|signature"
    r"|account[._-]?key(?:\.[\w.-]{1,200})?|sas[._-]?(?:key|token)|token|key\.pem"
    r"|(?:api|access|sse[._-]?customer|encryption|master|private)[._-]?key(?:[._-]base64)?"
    r"|credentials?(?:\.(?!provider)[\w.-]{1,200})?|pwd)"
)
_QUOTED = r"(?:\\?\"(?:[^\"\\]|\\.){0,4000}?\\?\"|'[^']{0,4000}'(?:'[^']{0,4000}')*)"
_SETTING = re.compile(
    r"password|passphrase|passwd|pwd|secret|token|credential(?!s?[._-]?provider)|sas|jaas"
    r"|basic\.auth\.user"
    r"|key\.pem|oauthbearer\.config"
    r"|(?:access|account|api|customer|encryption|keystore|master|private|provided)[._-]?key",
    re.IGNORECASE,
)
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # user:password@host: up to the last @, because passwords may have any character; not host:port
    (re.compile(r"(\w://)[^\s/:@?#]*:(?!\d+(?:[/?#\s'\",]|$))\S{0,2000}@"), rf"\1{HIDDEN}@"),
    # an access key of S3 with its secret key, in a path without a scheme
    (re.compile(r"\b[A-Z0-9]{16,128}:[^\s:@]{16,128}@"), rf"{HIDDEN}@"),
    # token@host; not abfss://container@account, which isn't a secret
    (re.compile(r"(\bhttps?://)[^\s/?#]{1,2000}@", re.IGNORECASE), rf"\1{HIDDEN}@"),
    # the start of a password that a URL parser reads as the port: in http://user:pass/word@host;
    # the parser quotes it with repr or '%s'
    (
        re.compile(
            r"((?:nonnumeric port: |Invalid port: |cast to integer value as ))"
            r"(?:\\?\"[^\"]{1,2000}\"|'(?:[^'\\]|\\.){1,2000}'|'.{1,2000}?')(?=[\s.,;:)\"]|\Z)"
        ),
        rf"\1'{HIDDEN}'",
    ),
    # user:password@host in a URL that is percent-encoded, once or several times
    (
        re.compile(r"(\w%(?:25)*3A(?:%(?:25)*2F){2})\S{0,2000}%(?:25)*40", re.IGNORECASE),
        rf"\1{HIDDEN}@",
    ),
    # name=value in a query that a store has percent-encoded as a part of a path
    (
        re.compile(
            rf"((?:{_NAME}|(?:\b|(?<=3F)|(?<=26))sig)%(?:25)*3D|(?<=3F)sig=|(?<=26)sig=)"
            r"(?:(?!%(?:25)*(?:26|3B|2C))[^\s&;,'\")])+",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
    # name=value in queries, connection strings and JAAS
    (
        re.compile(
            rf"((?:{_NAME}|\bsig)=)(?!(?:\*\*\*|\.\.\.)(?:[\s&;,'\")]|$))"
            rf"(?:{_QUOTED}|[^\s&;,'\")]+)",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
    # "name": "value" in JSON and Python, name = "value"
    (
        re.compile(
            rf"((?:{_NAME}\\?[\"']\s{{0,9}}[:=]\s{{0,9}}|{_NAME}\s{{1,9}}=\s{{0,9}})){_QUOTED}",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
    # 'name' 'value' and qualified.name 'value' in SQL; an excerpt may end before the closing quote
    (
        re.compile(
            rf"((?:{_NAME}[\"'`]|\w[._-]{_NAME})\s{{1,9}})(?:{_QUOTED}|[\"'][^\s\"']+)",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
    # name -> value in Scala
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
    # the value of the header Authorization without its name; not "Bearer authentication"
    (
        re.compile(
            r"(\b(?i:Basic|Bearer) +)(?=[\w.~+/-]{0,2000}(?:\d|[a-z][A-Z]|=))[\w.~+/=-]{12,}"
        ),
        rf"\1{HIDDEN}",
    ),
    (
        re.compile(r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----).*?(?=-----END|\Z)", re.DOTALL),
        rf"\1{HIDDEN}",
    ),
)


_HAS_SEPARATOR = re.compile(r"://|=|:|->|%|-----BEGIN|\s[\"']|\b(?:Basic|Bearer) ", re.IGNORECASE)


def without_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """Mask passwords in URLs, values of settings such as `password`, and the values in `secrets`.

    Args:
        secrets: secret values, such as values of storage options. Values of fewer than 4 characters
            are ignored.

    Example:
        >>> without_secrets("can't reach http://bob:hunter2@host:9000/")
        "can't reach http://***@host:9000/"
    """
    text = without_values(text, (s for s in secrets if len(s) >= _MIN_SECRET_LENGTH))
    if _HAS_SEPARATOR.search(text):
        for pattern, replacement in _PATTERNS:
            text = pattern.sub(replacement, text)
    return text


def without_values(text: str, secrets: Iterable[str]) -> str:
    """Mask secret values. A value of fewer than 12 characters is masked only as a whole word.

    Example:
        >>> without_values("the latest test", ["test"])
        'the latest ***'
    """
    for value in sorted(filter(None, secrets), key=len, reverse=True):
        if len(value) >= _LONG_SECRET_LENGTH:
            text = text.replace(value, HIDDEN)
        else:
            text = re.sub(f"{_START}{re.escape(value)}{_END}", HIDDEN, text)
    return text


def is_secret_name(key: str) -> bool:
    """Whether the name of a setting, such as a Spark conf, suggests that the value is secret."""
    return _SETTING.search(key) is not None


def is_panic(error: BaseException) -> bool:
    """Whether an error is the panic of a Rust library; panics aren't subclasses of `Exception`."""
    return type(error).__name__ == "PanicException" and not isinstance(error, Exception)
