"""Options about the store, in any of the names that users have for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bayou.spark.session.option_values import boolean_option

__all__ = ["storage_options"]

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
