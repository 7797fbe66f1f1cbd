"""Errors of obstore as S3 servers cause them."""

from __future__ import annotations

import pytest
from obstore.exceptions import GenericError, NotFoundError

from bayou.engines.arrow.storage.store_errors import storage_errors
from bayou.errors import FileMissingError, StorageError

_ANSWER = (
    "Generic S3 error: Error performing GET http://localhost:1/b?prefix=x in 1ms - Server returned "
    'non-2xx status code: {status}: <?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}'
    "</Code><Message>It is so.</Message><StringToSign>secret</StringToSign></Error>\n\n"
    "Debug source:\nGeneric {{ secret }}"
)


def _raised(status: str, code: str) -> StorageError:
    with pytest.raises(StorageError) as caught, storage_errors("s3://b/k", "list"):
        raise GenericError(_ANSWER.format(status=status, code=code))
    assert "secret" not in str(caught.value)
    assert caught.value.path == "s3://b/k"
    return caught.value


def test_code_and_message_of_the_store_are_told_without_the_query():
    assert str(_raised("503 Slow Down", "SlowDown")) == (
        "s3://b/k: can't list: Generic S3 error: Error performing GET http://localhost:1/b?... in "
        "1ms - Server returned non-2xx status code: 503 Slow Down: SlowDown: It is so."
    )


@pytest.mark.parametrize("code", ["InvalidAccessKeyId", "AccessDenied", "SignatureDoesNotMatch"])
def test_refused_credentials_are_told_as_such_whatever_the_status(code):
    assert "refused the credentials" in str(_raised("404 Not Found", code))


def test_a_response_in_one_line_shows_only_its_code_and_message():
    response = (
        "<Error><Code>Bad</Code><Message>It is so.</Message><Token-0>secret</Token-0></Error>"
    )
    with pytest.raises(StorageError) as caught, storage_errors("s3://b/k", "read"):
        raise GenericError(f"Generic S3 error: status code: 400 Bad Request: {response}")
    assert str(caught.value) == (
        "s3://b/k: can't read: Generic S3 error: status code: 400 Bad Request: Bad: It is so."
    )


def test_an_upload_that_the_store_does_not_have_is_not_a_missing_bucket():
    with (
        pytest.raises(StorageError, match="no such multipart upload") as caught,
        storage_errors("s3://b/k", "write"),
    ):
        raise NotFoundError("404: <Error><Code>NoSuchUpload</Code></Error>")
    assert not isinstance(caught.value, FileMissingError)


def test_a_key_that_cannot_be_listed_is_named_with_what_to_do():
    with (
        pytest.raises(StorageError, match='"a//b".*Rename or delete the object'),
        storage_errors("s3://b/k", "list"),
    ):
        raise GenericError('Encountered object with invalid path: Path "a//b" contained empty path')


def test_a_missing_bucket_is_named():
    error = _raised("404 Not Found", "NoSuchBucket")
    assert isinstance(error, FileMissingError)
    assert "the store has no bucket 'b'" in str(error)


def test_without_credentials_it_is_said_which_to_set():
    asked = "Error performing PUT http://machine/latest/api/token in 6ms - status 403"
    with (
        pytest.raises(StorageError, match="Set AWS_ACCESS_KEY_ID"),
        storage_errors("s3://b", "read"),
    ):
        raise GenericError(f"Generic S3 error: {asked}")
