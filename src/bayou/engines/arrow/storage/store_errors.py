"""Translates errors of object stores to one-line messages with advice and without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from obstore.exceptions import (
    BaseError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
)

from bayou.errors import ArgumentError, BayouError, FileMissingError, StorageError
from bayou.redaction import HIDDEN, is_panic, without_secrets

_S3_ERROR = re.compile(r"<Code>([^<]*)</Code>(?:\s*<Message>([^<]*)</Message>)?")
_RESPONSE_START = re.compile(r":\s*<(?:\?xml|Error)\b")
"""Regular expression that matches the start of the store's XML response in an obstore error."""

_PROVIDER_ERROR = re.compile(
    r"(?:role \S+: can't be assumed:|credentials of \S+: the catalog vends none)[^\n]*"
)
"""Regular expression that matches the message of a credential provider in an obstore error."""

_INSTANCE_METADATA = (
    ("/latest/api/token", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    ("/metadata/identity/", "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"),
    ("/computeMetadata/", "GOOGLE_SERVICE_ACCOUNT or GOOGLE_APPLICATION_CREDENTIALS"),
)
"""A pair for each of S3, Azure and Google Cloud Storage: a URL path and environment variables.

If no credentials are configured, the client requests them from the machine's metadata service at
this path. If the request fails, the error message suggests these variables."""

_REJECTED_CREDENTIALS = frozenset(
    {
        "AccessDenied",
        "AuthenticationFailed",
        "AuthenticationRequired",
        "ExpiredToken",
        "InvalidAccessKeyId",
        "InvalidToken",
        "SignatureDoesNotMatch",
    }
)


_INVALID_KEY = "Encountered object with invalid path"
"""Start of obstore's error for a listing with a key such as `a//b` or `a/../b`."""

_NO_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound"})


@contextmanager
def storage_errors(path: str, operation: str, secrets: Iterable[str] = ()) -> Iterator[None]:
    """Context manager that translates errors of the store to a `StorageError` with advice.

    The error has no `__cause__`, because messages of obstore contain signed requests.

    Args:
        secrets: values that are removed from the store's response; see `secret_values`.
    """
    try:
        yield
    except BayouError:
        raise
    except (PermissionDeniedError, UnauthenticatedError, PermissionError) as error:
        provider = _PROVIDER_ERROR.search(str(error))
        if provider is not None:
            reason = without_secrets(provider[0], secrets)
            raise StorageError(f"{path}: can't {operation}: {reason}", path=path) from None
        raise _rejected_credentials(path, operation) from None
    except (BaseError, OSError, ValueError, NotImplementedError) as error:
        code = error_code(error)
        if code in _REJECTED_CREDENTIALS:
            raise _rejected_credentials(path, operation) from None
        for request, variables in _INSTANCE_METADATA:
            if request in str(error):
                raise StorageError(
                    f"{path}: can't {operation}: no credentials, and this machine has no role that "
                    f"provides them. Set {variables} in the environment or in storage_options.",
                    path=path,
                ) from None
        if code in _NO_BUCKET:
            bucket = path.partition("://")[2].partition("/")[0]
            raise FileMissingError(
                f"{path}: can't {operation}: the store has no bucket {bucket!r}. Check the name, "
                "or create the bucket.",
                path=path,
            ) from None
        if isinstance(error, NotFoundError | FileNotFoundError):
            if code == "NoSuchUpload":  # a lost response of the request that completes an upload
                raise StorageError(
                    f"{path}: can't {operation}: the store has no such multipart upload. Another "
                    "process aborted the upload, or the upload was completed, but the response of "
                    "the store was lost. Repeat the operation.",
                    path=path,
                ) from None
            missing = (
                "the bucket doesn't exist" if operation == "write" else "the object doesn't exist"
            )
            raise FileMissingError(f"{path}: can't {operation}: {missing}", path=path) from None
        message = error_message(error, secrets)
        if _INVALID_KEY in message:
            message += (
                ". The store client doesn't support this key, so it can't list this folder. Rename "
                "or delete the object with another tool."
            )
        raise StorageError(f"{path}: can't {operation}: {message}", path=path) from None
    except BaseException as error:
        if is_panic(error):
            raise StorageError(
                f"{path}: can't {operation}: the storage client failed: "
                f"{error_message(error, secrets)}. Check the storage options and the environment "
                "variables that set them.",
                path=path,
            ) from None
        raise


@contextmanager
def opening_errors(root: str, options: Mapping[str, str]) -> Iterator[None]:
    """Context manager that translates errors of opening a store to an `ArgumentError`.

    The message names the invalid options, but doesn't contain their values.
    """
    try:
        yield
    except BayouError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        message = error_message(error)
        if "Account must be specified" in message:
            raise ArgumentError(
                f"{root}: the storage account is missing. Set AZURE_STORAGE_ACCOUNT_NAME in the "
                "environment or in storage_options, or write the path as "
                "abfss://container@account.dfs.core.windows.net/key.",
                argument="storage_options",
            ) from None
        quoted = re.findall(r"\"([^\"]*)\"|'([^']*)'", message)
        values = [value for pair in quoted for value in pair if value]
        values.append(message)  # paths of files aren't quoted
        names = [k for k, v in options.items() if len(v) > 1 and any(v in q for q in values)]
        message = re.sub(r"\"[^\"]*\"|'[^']*'", HIDDEN, message)
        hint = f" (see {', '.join(sorted(names))})" if names else ""
        raise ArgumentError(
            f"{root}: can't open with these storage options{hint}: "
            f"{without_secrets(message, options.values())}",
            argument="storage_options",
        ) from None  # obstore's own error may quote the options


def error_message(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """Return the message of an obstore error in one line.

    The query strings of URLs and the values in `secrets` are removed.
    """
    whole = str(error)
    message = whole.partition("\n")[0]
    response = _S3_ERROR.search(whole)
    if response is not None:
        # The rest of the response isn't shown: some stores repeat the request's token in it.
        message = _RESPONSE_START.split(message, maxsplit=1)[0]
        message = f"{message}: {response[1]}: {response[2] or 'no message'}"
    return re.sub(r"\?\S+", "?...", without_secrets(message, secrets))


def error_code(error: BaseException) -> str | None:
    """Return the error code in S3's response; None if the message contains no code."""
    response = _S3_ERROR.search(str(error))
    return None if response is None else response[1]


def _rejected_credentials(path: str, doing: str) -> StorageError:
    return StorageError(
        f"{path}: can't {doing}: the store refused the credentials. Check storage_options or the "
        "environment, and the permissions of the credentials.",
        path=path,
    )
