"""Temporary credentials of an AWS role, requested from AWS STS with an access key.

obstore itself supports web identities, and the roles of machines and containers. This module isn't
used for these credentials.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import http.client
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit
from xml.etree import ElementTree as ET

from bayou.engines.arrow.storage.secret_values import endpoint_hosts, secret_values
from bayou.errors import ArgumentError, StorageError
from bayou.redaction import without_secrets

if TYPE_CHECKING:
    from obstore.store import S3Credential

_ROLE = ("aws_iam_role_arn", "iam_role_arn", "aws_role_arn", "role_arn")
_SESSION = (
    "aws_iam_role_session_name",
    "iam_role_session_name",
    "aws_role_session_name",
    "role_session_name",
)
_OWN = frozenset({"aws_iam_role_arn", "iam_role_arn", *_SESSION[:2]})
"""Options of `deltalake` that obstore doesn't support. They configure the role to assume."""

_KEY = ("aws_access_key_id", "access_key_id")
_SECRET = ("aws_secret_access_key", "secret_access_key")
_TOKEN = ("aws_session_token", "session_token", "aws_token", "token")
_REGION = ("aws_region", "region", "aws_default_region", "default_region")
_ENDPOINT = ("aws_endpoint_url_sts", "endpoint_url_sts")
_WEB_IDENTITY = ("aws_web_identity_token_file", "web_identity_token_file")
_TIMEOUT_SECONDS = 30.0


def take_role(
    config: dict[str, str], variables: Mapping[str, str], *, verify: bool = True
) -> AssumedRole | None:
    """Remove the role options of `deltalake` from `config`; return the role to assume.

    Returns None if no role is set, or if obstore assumes the role with a web identity.

    Args:
        config: options in lower case, changed in place.
        variables: environment variables, for options that `config` doesn't have.
        verify: whether to verify the certificate of the token service.
    """
    role = _first(config, _ROLE)
    known = {**{k.lower(): v for k, v in variables.items()}, **config}
    for name in _OWN & config.keys():
        del config[name]
    if role is None or _first(known, _WEB_IDENTITY) is not None:
        return None
    key, secret = _first(known, _KEY), _first(known, _SECRET)
    if key is None or secret is None:
        raise ArgumentError(
            f"role {role}: the credentials for assuming the role are missing. Set "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_WEB_IDENTITY_TOKEN_FILE.",
            argument="storage_options",
        )
    # A session token of the environment belongs to the access key of the environment.
    is_own_key = key == _first({k.lower(): v for k, v in variables.items()}, _KEY)
    token = _first(known if is_own_key else config, _TOKEN)
    region = _first(known, _REGION) or "us-east-1"
    host = f"sts.{region}.amazonaws.com"
    return AssumedRole(
        arn=role,
        session_name=_first(known, _SESSION) or "bayou",
        region=region,
        endpoint=_first(known, _ENDPOINT) or f"https://{host}",
        access_key=key,
        secret_key=secret,
        token=token,
        verify=verify,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedRole:
    """Credential provider for obstore: a call requests temporary credentials of a role.

    obstore calls the provider again before the credentials expire.

    Attributes:
        endpoint: URL of the token service.
        verify: whether to verify the service's certificate.
    """

    arn: str
    session_name: str
    region: str
    endpoint: str
    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(repr=False)
    verify: bool = True

    def __call__(self) -> S3Credential:
        status, body = self._request()
        if status != http.HTTPStatus.OK:
            code, message = _text(body, "Code"), _text(body, "Message")
            reason = without_secrets(f"{code or status}: {message}", self._secrets())
            raise StorageError(
                f"role {self.arn}: can't be assumed: {reason}. Check the role's trust policy and "
                "the permissions of the access key.",
                path=self.endpoint,
            )
        key, secret = _text(body, "AccessKeyId"), _text(body, "SecretAccessKey")
        expiration = _expiration(_text(body, "Expiration"))
        if not key or not secret or expiration is None:
            raise StorageError(
                f"role {self.arn}: can't be assumed: the response of {self.endpoint} has no "
                "credentials. Check that AWS_ENDPOINT_URL_STS is the URL of an AWS STS.",
                path=self.endpoint,
            )
        return {
            "access_key_id": key,
            "secret_access_key": secret,
            "token": _text(body, "SessionToken"),
            "expires_at": expiration,
        }

    def _request(self) -> tuple[int, bytes]:
        parameters = {
            "Action": "AssumeRole",
            "Version": "2011-06-15",
            "RoleArn": self.arn,
            "RoleSessionName": self.session_name,
        }
        body = urlencode(parameters).encode()
        url = urlsplit(self.endpoint)
        try:
            if url.scheme == "http":
                connection = http.client.HTTPConnection(url.netloc, timeout=_TIMEOUT_SECONDS)
            else:
                connection = http.client.HTTPSConnection(
                    url.netloc, timeout=_TIMEOUT_SECONDS, context=_tls(verify=self.verify)
                )
            try:
                headers = self.signed_headers(url.netloc, body, dt.datetime.now(dt.UTC))
                connection.request("POST", "/", body, headers)
                response = connection.getresponse()
                return response.status, response.read()
            finally:
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            raise StorageError(
                f"role {self.arn}: can't be assumed: the request to {self.endpoint} failed: "
                f"{error}. Check the connection to this URL.",
                path=self.endpoint,
            ) from None

    def _secrets(self) -> Iterator[str]:
        credentials = {"secret_access_key": self.secret_key, "session_token": self.token}
        return secret_values(credentials, endpoint_hosts({"endpoint": self.endpoint}))

    def signed_headers(self, host: str, body: bytes, now: dt.datetime) -> dict[str, str]:
        """Return the headers of a POST to `/`, including the AWS Signature Version 4."""
        headers = {
            "content-type": "application/x-www-form-urlencoded",
            "host": host,
            "x-amz-date": now.strftime("%Y%m%dT%H%M%SZ"),
        }
        if self.token is not None:
            headers["x-amz-security-token"] = self.token
        signed = ";".join(headers)
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        request = f"POST\n/\n\n{lines}\n{signed}\n{hashlib.sha256(body).hexdigest()}"
        scope = f"{now:%Y%m%d}/{self.region}/sts/aws4_request"
        digest = hashlib.sha256(request.encode()).hexdigest()
        key = f"AWS4{self.secret_key}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        text = f"AWS4-HMAC-SHA256\n{headers['x-amz-date']}\n{scope}\n{digest}"
        signature = hmac.new(key, text.encode(), "sha256").hexdigest()
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self.access_key}/{scope}, SignedHeaders={signed}, "
            f"Signature={signature}"
        )
        return headers


def _first(options: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((options[name] for name in names if options.get(name)), None)


def _text(body: bytes, name: str) -> str:
    """Return the text of the first XML element called `name`.

    Returns an empty string if the body isn't XML, or if it has no element of this name.
    """
    try:
        root = ET.fromstring(body)  # noqa: S314 - the answer of AWS's token service
    except ET.ParseError:
        return ""
    found = next((e for e in root.iter() if e.tag.rpartition("}")[2] == name), None)
    return "" if found is None else found.text or ""


def _expiration(text: str) -> dt.datetime | None:
    """Parse an ISO 8601 time; return None if the text isn't a time.

    A time without a time zone is in UTC.
    """
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=dt.UTC)


def _tls(*, verify: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
