"""Translation of object store errors into one-line errors that say what to do, without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from obstore.exceptions import (
    BaseError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
)

from bayou.errors import ArgumentError, BayouError, FileMissingError, StorageError
from bayou.redaction import HIDDEN, is_panic, without_secrets

__all__ = ["error_code", "error_message", "opening_errors", "storage_errors"]

_S3_ERROR = re.compile(r"<Code>([^<]*)</Code>(?:\s*<Message>([^<]*)</Message>)?")
_INSTANCE_METADATA = "/latest/api/token"
"""Path that the S3 client requests from the machine if nothing else provides credentials."""

_REJECTED_CREDENTIALS = frozenset(
    {
        "AccessDenied",
        "ExpiredToken",
        "InvalidAccessKeyId",
        "InvalidToken",
        "SignatureDoesNotMatch",
    }
)


@contextmanager
def storage_errors(path: str, operation: str) -> Iterator[None]:
    """Translate errors of the store into a `StorageError` that says what to do.

    The error has no cause, because obstore's errors quote requests with their signatures.

    Args:
        path: path of the object or folder.
        operation: a verb: read, write, list, delete.
    """
    try:
        yield
    except BayouError:
        raise
    except (PermissionDeniedError, UnauthenticatedError, PermissionError):
        raise _rejected_credentials(path, operation) from None
    except (BaseError, OSError, ValueError, NotImplementedError) as error:
        code = error_code(error)
        if code in _REJECTED_CREDENTIALS:
            raise _rejected_credentials(path, operation) from None
        if _INSTANCE_METADATA in str(error):
            raise StorageError(
                f"{path}: can't {operation}: no credentials, and this machine has no role that "
                "provides them. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the "
                "environment or in storage_options.",
                path=path,
            ) from None
        if code == "NoSuchBucket":
            bucket = path.partition("://")[2].partition("/")[0]
            raise FileMissingError(
                f"{path}: can't {operation}: the store has no bucket {bucket!r}", path=path
            ) from None
        if isinstance(error, NotFoundError | FileNotFoundError):
            missing = (
                "the bucket doesn't exist" if operation == "write" else "the object doesn't exist"
            )
            raise FileMissingError(f"{path}: can't {operation}: {missing}", path=path) from None
        raise StorageError(
            f"{path}: can't {operation}: {error_message(error)}", path=path
        ) from None
    except BaseException as error:
        if is_panic(error):
            raise StorageError(
                f"{path}: can't {operation}: the storage client failed: {error_message(error)}. "
                "Check the "
                "storage options and the environment variables that set them.",
                path=path,
            ) from None
        raise


@contextmanager
def opening_errors(root: str, options: Mapping[str, str]) -> Iterator[None]:
    """Translate errors of opening a store into an `ArgumentError` that names the wrong options.

    Args:
        root: root of the store.
        options: the storage options and the environment variables that act as options; the
            message doesn't contain their values.
    """
    try:
        yield
    except BayouError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        message = error_message(error)
        quoted = re.findall(r"\"([^\"]*)\"|'([^']*)'", message)
        values = [value for pair in quoted for value in pair if value]
        names = [k for k, v in options.items() if v and any(v in q or q == v for q in values)]
        message = re.sub(r"\"[^\"]*\"|'[^']*'", HIDDEN, message)
        hint = f" (see {', '.join(sorted(names))})" if names else ""
        raise ArgumentError(
            f"{root}: can't open with these storage options{hint}: "
            f"{without_secrets(message, options.values())}",
            argument="storage_options",
        ) from None  # obstore's own error may quote the options


def error_message(error: BaseException) -> str:
    """The message of an obstore error in one line, without the query strings of URLs."""
    message, _, rest = str(error).partition("\n")
    response = _S3_ERROR.search(rest)
    if response is not None:
        message = f"{message.partition(': <?xml')[0]}: {response[1]}: {response[2] or 'no message'}"
    return re.sub(r"\?\S+", "?...", without_secrets(message))


def error_code(error: BaseException) -> str | None:
    """The error code of S3's response, None if it has none."""
    response = _S3_ERROR.search(str(error))
    return None if response is None else response[1]


def _rejected_credentials(path: str, doing: str) -> StorageError:
    return StorageError(
        f"{path}: can't {doing}: the store refused the credentials. Check storage_options or the "
        "environment, and the permissions of the credentials.",
        path=path,
    )
