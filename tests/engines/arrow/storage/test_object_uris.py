"""Which paths are local, which are objects, and which are refused as mistyped or unsupported."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.engines.arrow.storage.object_uris import is_local_path, split_object_uri
from bayou.errors import ArgumentError

LOCAL = [
    "lake/events",
    "/lake/events",
    "./s3:/b/x",
    "./s3//b/x",
    "../s3//b/x",
    "lake//events",
    "/dbfs/mnt/x",
    "dbfs/mnt/x",
    "file:/lake/x",
    "file:///lake/x",
    "events:2024",
    "~/s3//b",
]
MISTYPED = [
    "s3:/bucket/x",
    "S3:/bucket/x",
    "s3:bucket/x",
    "s3a:/bucket/x",
    "gs:/bucket/x",
    "abfss:/c@account/x",
    "s3//b/x",
    "s3a//b/x",
    "gs//b/x",
    "s3;//b/x",
    "s3.//b/x",
    " s3://b/x",
    "s3 ://b/x",
    "https//host/x",
]
UNSUPPORTED = ["dbfs:/mnt/x", "dbfs://mnt/x", "http:/x", "ftp://b/x", "foo:/b/x", "FILE:///x"]


@pytest.mark.parametrize("path", LOCAL)
def test_a_local_path_is_local(path):
    assert is_local_path(path)


@pytest.mark.parametrize("path", ["s3://b/k", "S3A://b/k", "gs://b/k", "abfss://c@a.host/k"])
def test_a_uri_of_an_object_store_is_not_local(path):
    assert not is_local_path(path)
    assert split_object_uri(path)[1] == "k"


@pytest.mark.parametrize("path", MISTYPED)
def test_a_mistyped_uri_is_refused_with_the_correct_form(path):
    with pytest.raises(ArgumentError, match=r"mistyped URI. Write it as [a-z0-9]+://bucket/key"):
        is_local_path(path)


@pytest.mark.parametrize("path", UNSUPPORTED)
def test_another_scheme_is_refused_with_the_supported_ones(path):
    with pytest.raises(ArgumentError, match=r"no engine for the scheme .* or one of file://"):
        is_local_path(path)


@pytest.mark.parametrize("path", [*MISTYPED, *UNSUPPORTED])
def test_no_folder_is_created_for_a_refused_path(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    for attempt in (
        lambda: bayou.write(path, pa.table({"id": [1]})),
        lambda: bayou.table(path).snapshot(),
        lambda: ArrowEngine().files.mkdirs(path),
    ):
        with pytest.raises(ArgumentError):
            attempt()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("start", ["s3:/", "s3//", "dbfs:/", "foo://", "s3://"])
def test_a_message_about_a_refused_uri_shows_no_credentials(start):
    with pytest.raises(ArgumentError) as raised:
        ArrowEngine().files.resolve_path(f"{start}AKIAKEY:hunter2@bucket/x")
    assert "AKIAKEY" not in raised.value.message
    assert "hunter2" not in raised.value.message
