"""What an object store says, as errors of ours: one line, what to do, and no secrets."""

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

__all__ = ["error_code", "opening_errors", "said", "storage_errors"]

_S3_ERROR = re.compile(r"<Code>([^<]*)</Code>(?:\s*<Message>([^<]*)</Message>)?")
_INSTANCE_METADATA = "/latest/api/token"
"""What the S3 client asks of the machine it runs on where nothing else gives credentials."""

_REFUSED_CREDENTIALS = frozenset(
    {
        "AccessDenied",
        "ExpiredToken",
        "InvalidAccessKeyId",
        "InvalidToken",
        "SignatureDoesNotMatch",
    }
)


@contextmanager
def storage_errors(path: str, doing: str) -> Iterator[None]:
    """Turn what the store says into a `StorageError` that says what to do.

    Without a cause: obstore's errors quote requests with their signatures.

    Args:
        path: what it is about.
        doing: a verb: read, write, list, delete.
    """
    try:
        yield
    except BayouError:
        raise
    except (PermissionDeniedError, UnauthenticatedError, PermissionError):
        raise _refused(path, doing) from None
    except (BaseError, OSError, ValueError, NotImplementedError) as error:
        code = error_code(error)
        if code in _REFUSED_CREDENTIALS:
            raise _refused(path, doing) from None
        if _INSTANCE_METADATA in str(error):
            raise StorageError(
                f"can't {doing} {path}: there are no credentials; set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY in the environment or in storage_options (this machine has "
                "no role that would give them)",
                path=path,
            ) from None
        if code == "NoSuchBucket":
            bucket = path.partition("://")[2].partition("/")[0]
            raise FileMissingError(
                f"can't {doing} {path}: the store has no bucket {bucket!r}", path=path
            ) from None
        if isinstance(error, NotFoundError | FileNotFoundError):
            missing = "there is no such bucket" if doing == "write" else "there is no such object"
            raise FileMissingError(f"can't {doing} {path}: {missing}", path=path) from None
        raise StorageError(f"can't {doing} {path}: {said(error)}", path=path) from None
    except BaseException as error:
        if is_panic(error):
            raise StorageError(
                f"can't {doing} {path}: the storage client failed: {said(error)}. Check the "
                "storage options and the variables of the environment that set them.",
                path=path,
            ) from None
        raise


@contextmanager
def opening_errors(root: str, options: Mapping[str, str]) -> Iterator[None]:
    """Turn what is wrong with options into an `ArgumentError` that names them without a value.

    Args:
        root: of the store.
        options: the storage options, and variables of the environment that act as some.
    """
    try:
        yield
    except BayouError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        text = said(error)
        quoted = re.findall(r"\"([^\"]*)\"|'([^']*)'", text)
        values = [value for pair in quoted for value in pair if value]
        named = [k for k, v in options.items() if v and any(v in q or q == v for q in values)]
        text = re.sub(r"\"[^\"]*\"|'[^']*'", HIDDEN, text)
        which = f" (see {', '.join(sorted(named))})" if named else ""
        raise ArgumentError(
            f"can't open {root} with these storage options{which}: "
            f"{without_secrets(text, options.values())}",
            argument="storage_options",
        ) from None  # obstore's own error may quote the options


def said(error: BaseException) -> str:
    """What obstore said, in one line, and without what URLs carry behind a `?`."""
    text, _, rest = str(error).partition("\n")
    answer = _S3_ERROR.search(rest)
    if answer is not None:
        text = f"{text.partition(': <?xml')[0]}: {answer[1]}: {answer[2] or 'no message'}"
    return re.sub(r"\?\S+", "?...", without_secrets(text))


def error_code(error: BaseException) -> str | None:
    """The code of S3's answer, None where there is none."""
    answer = _S3_ERROR.search(str(error))
    return None if answer is None else answer[1]


def _refused(path: str, doing: str) -> StorageError:
    return StorageError(
        f"can't {doing} {path}: the store refused the credentials; check storage_options or "
        "the environment, and what they are allowed to do",
        path=path,
    )
