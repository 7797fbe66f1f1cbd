"""Options about the store, in any of the names that users have for them.

Values of options, which Spark hands over as texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bayou.errors import ArgumentError

__all__ = ["boolean_option", "integer_option", "path_option", "storage_options", "whole_number"]


_NO_PATH = (
    "The format 'delta' got no path. Read with spark.read.format('delta').load(path) and write "
    "with df.write.format('delta').save(path): Spark passes no options, and so no path, to a "
    "Python data source for tables of its catalog (saveAsTable, insertInto, CREATE TABLE ... USING "
    "delta, spark.table). After bayou.spark.enable(spark) saveAsTable and insertInto write to the "
    "table's location (not under Spark Connect, where it can't be seen); a temporary view over a "
    "DataFrame gives a table a name anywhere."
)


def path_option(given: Mapping[str, str]) -> str:
    """The option `path`. Arguments as of `integer_option`.

    Raises:
        ArgumentError: there is none, or several.
    """
    if "paths" in given:
        raise ArgumentError(
            f"load() got several paths, {given['paths']}; the format 'delta' reads one table at a "
            "time. Load each and unite them with unionByName.",
            argument="path",
        )
    path = given.get("path", "").strip()
    if not path:
        raise ArgumentError(_NO_PATH, argument="path")
    return path


def integer_option(given: Mapping[str, str], name: str) -> int | None:
    """A whole number from 1 on; None where the option isn't there.

    Args:
        given: options by their names in lower case.
        name: as users write it.

    Raises:
        ArgumentError: another text.
    """
    value = given.get(name.lower())
    return None if value is None else whole_number(name, value, 1)


def whole_number(name: str, text: str, least: int) -> int:
    """The number that an option's text is.

    Raises:
        ArgumentError: another text, or less than `least`.
    """
    try:
        value = int(text.strip())
    except ValueError:
        value = least - 1
    if value < least:
        raise ArgumentError(
            f"{name} is {text!r}; it must be a whole number, at least {least}.", argument=name
        )
    return value


def boolean_option(given: Mapping[str, str], name: str) -> bool:
    """Whether an option is true; false where it isn't there. Arguments as of `integer_option`.

    Raises:
        ArgumentError: a text that is neither.
    """
    text = given.get(name.lower(), "false").strip().lower()
    if text not in ("true", "false"):
        raise ArgumentError(f"{name} is {text!r}; it must be true or false.", argument=name)
    return text == "true"


_STORAGE_PREFIXES = ("aws_", "azure_", "google_", "fs.s3a.")
_STORAGE_NAMES = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "proxy_url",
        "timeout",
        "user_agent",
    }
)
_S3A = {
    "fs.s3a.access.key": "aws_access_key_id",
    "fs.s3a.secret.key": "aws_secret_access_key",
    "fs.s3a.session.token": "aws_session_token",
    "fs.s3a.endpoint": "aws_endpoint_url",
    "fs.s3a.endpoint.region": "aws_region",
}
_ANONYMOUS = "AnonymousAWSCredentialsProvider"


def storage_options(options: Mapping[str, str]) -> dict[str, str]:
    """Those options that are about the store, in deltalake's names (keys in lower case).

    Hadoop's names for S3 (`fs.s3a.access.key`, `fs.s3a.endpoint`, ...) are translated; deltalake's
    own win over them.
    """
    given = {key.lower(): value for key, value in options.items()}
    result = dict(_from_hadoop(given))
    for key, value in given.items():
        if key.startswith("fs."):
            continue
        if key.startswith(_STORAGE_PREFIXES) or key in _STORAGE_NAMES:
            result[key] = value
    return result


def _from_hadoop(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, value in given.items():
        if key in _S3A:
            yield _S3A[key], value
    if _ANONYMOUS in given.get("fs.s3a.aws.credentials.provider", ""):
        yield "aws_skip_signature", "true"
    if "fs.s3a.path.style.access" in given:
        path_style = boolean_option(given, "fs.s3a.path.style.access")
        yield "aws_virtual_hosted_style_request", str(not path_style).lower()
    endpoint = given.get("fs.s3a.endpoint", "")
    ssl = given.get("fs.s3a.connection.ssl.enabled")
    if endpoint and "://" not in endpoint:
        scheme = "http" if ssl is not None and ssl.lower() == "false" else "https"
        yield "aws_endpoint_url", f"{scheme}://{endpoint}"
        endpoint = f"{scheme}://{endpoint}"
    if endpoint.startswith("http://"):
        yield "aws_allow_http", "true"
