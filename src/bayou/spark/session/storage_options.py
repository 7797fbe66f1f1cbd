"""Parsers of option values, and conversion of storage options from Hadoop's to deltalake's names.

The keys of the parameter `options` are in lower case, unless a docstring says otherwise. An invalid
value raises `ArgumentError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bayou.errors import ArgumentError

_NO_PATH = (
    "path: the format 'delta' got no path. Read with spark.read.format('delta').load(path) and "
    "write with df.write.format('delta').save(path). Catalog tables (saveAsTable, insertInto, "
    "CREATE TABLE ... USING delta, spark.table) require bayou.spark.enable(spark), because "
    "Spark passes no path to a Python data source for them. Without enable(), create a "
    "temporary view over a DataFrame."
)


def path_option(options: Mapping[str, str]) -> str:
    """Return the option `path`; raise `ArgumentError` if there is no path, or more than one."""
    if "paths" in options:
        raise ArgumentError(
            f"path: load() got several paths, {options['paths']}. Load each table and combine them "
            "with unionByName.",
            argument="path",
        )
    path = options.get("path", "").strip()
    if not path:
        raise ArgumentError(_NO_PATH, argument="path")
    return path


def integer_option(options: Mapping[str, str], name: str) -> int | None:
    """Return the value of an integer option, which must be at least 1; None if it isn't set.

    Args:
        name: the option's name in its documented spelling, such as `minPartitions`.
    """
    value = options.get(name.lower())
    return None if value is None else parse_integer(name, value, 1)


def parse_integer(name: str, string: str, minimum: int) -> int:
    """Parse an option's value as an integer of at least `minimum`."""
    try:
        value = int(string.strip())
    except ValueError:
        value = minimum - 1
    if value < minimum:
        raise ArgumentError(
            f"{name}: {string!r} isn't valid (DELTA_ILLEGAL_OPTION). Set an integer of at least "
            f"{minimum}.",
            argument=name,
        )
    return value


def boolean_option(options: Mapping[str, str], name: str) -> bool:
    """Return the value of a boolean option, false by default.

    Args:
        name: the option's name in its documented spelling, such as `pushFilters`.
    """
    value = options.get(name.lower(), "false").strip().lower()
    if value not in ("true", "false"):
        raise ArgumentError(
            f"{name}: {value!r} isn't valid (DELTA_ILLEGAL_OPTION). Set true or false.",
            argument=name,
        )
    return value == "true"


_STORAGE_PREFIXES = ("aws_", "azure_", "google_", "fs.s3a.", "fs.azure.", "fs.gs.")
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
HADOOP_AZURE: Mapping[str, str] = {
    "fs.azure.account.key": "azure_storage_account_key",
    "fs.azure.sas.fixed.token": "azure_storage_sas_token",
    "fs.azure.account.oauth2.client.id": "azure_client_id",
    "fs.azure.account.oauth2.client.secret": "azure_client_secret",
    "fs.azure.account.oauth2.client.endpoint": "azure_tenant_id",
}
"""Equivalent storage option of each setting of `hadoop-azure`."""

HADOOP_GOOGLE: Mapping[str, str] = {
    "fs.gs.auth.service.account.json.keyfile": "google_service_account",
}
"""Equivalent storage option of each setting of `gcs-connector`."""

_ANONYMOUS = "AnonymousAWSCredentialsProvider"


def storage_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the storage options among `options`, with deltalake's names in lower case.

    Hadoop's names (`fs.s3a.access.key`, `fs.azure.account.key`, ...) are translated. If an option
    is set under both names, the value under deltalake's name is used. The keys of `options` can be
    in any case.
    """
    lower_case = {key.lower(): value for key, value in options.items()}
    result = dict(_from_hadoop(lower_case))
    for key, value in lower_case.items():
        if key.startswith("fs."):
            continue
        if key.startswith(_STORAGE_PREFIXES) or key in _STORAGE_NAMES:
            result[key] = value
    return result


def _from_hadoop(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, value in options.items():
        if key in _S3A:
            yield _S3A[key], value
        elif key == "fs.azure.account.oauth2.client.endpoint":
            # https://HOST/TENANT/oauth2/token
            yield HADOOP_AZURE[key], value.partition("://")[2].partition("/")[2].partition("/")[0]
        elif key in HADOOP_AZURE or key in HADOOP_GOOGLE:
            yield {**HADOOP_AZURE, **HADOOP_GOOGLE}[key], value
    if _ANONYMOUS in options.get("fs.s3a.aws.credentials.provider", ""):
        yield "aws_skip_signature", "true"
    if "fs.s3a.path.style.access" in options:
        path_style = boolean_option(options, "fs.s3a.path.style.access")
        yield "aws_virtual_hosted_style_request", str(not path_style).lower()
    endpoint = options.get("fs.s3a.endpoint", "")
    ssl = options.get("fs.s3a.connection.ssl.enabled")
    if endpoint and "://" not in endpoint:
        scheme = "http" if ssl is not None and ssl.lower() == "false" else "https"
        yield "aws_endpoint_url", f"{scheme}://{endpoint}"
        endpoint = f"{scheme}://{endpoint}"
    if endpoint.startswith("http://"):
        yield "aws_allow_http", "true"
