"""Vended credentials under obstore's names, and engines of workers."""

from __future__ import annotations

import datetime as dt

import msgspec
import pyarrow as pa
import pytest

import bayou
from bayou.engines import from_description
from bayou.errors import CatalogError
from bayou.kernel import Table
from bayou.unity.credentials import VendedCredentials
from bayou.unity.engine import unity_engine
from bayou.unity.tables import open_table
from bayou.unity.wire import PathCredentials, StorageCredential
from support.scripted_s3 import scripted_s3
from support.unity_double import UnityDouble

S3 = {"s3.access-key-id": "a", "s3.secret-access-key": "s", "s3.session-token": "t"}


def vended(*credentials: StorageCredential, location: str = "s3://lake/a/b") -> dict:
    return VendedCredentials("uc://a.b.c", location, lambda: credentials)()


def credential(config: dict, prefix: str = "s3://lake/a", expiry: int | None = None):
    return StorageCredential(prefix=prefix, config=config, expiration_time_ms=expiry)


def test_credentials_have_obstores_names():
    time = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    expiry = int(time.timestamp() * 1000)
    assert vended(credential(S3, expiry=expiry)) == {
        "access_key_id": "a",
        "secret_access_key": "s",
        "token": "t",
        "expires_at": time,
    }
    azure = credential({"azure.sas-token": "sv=1"}, "abfss://c@h/x")
    assert vended(azure, location="abfss://c@h/x/y") == {"sas_token": "sv=1", "expires_at": None}
    google = credential({"gcs.oauth-token": "o"}, "gs://lake")
    assert vended(google, location="gs://lake/y") == {"token": "o", "expires_at": None}


def test_the_credential_of_the_longest_prefix_is_used():
    nearer = credential({**S3, "s3.access-key-id": "nearer"}, "s3a://lake/a/b/")
    beside = credential({**S3, "s3.access-key-id": "beside"}, "s3://lake/a/bc")
    found = vended(credential(S3), nearer, beside)
    assert found["access_key_id"] == "nearer"


@pytest.mark.parametrize("found", [[], [credential(S3, "s3://lake/a/bb")], [credential({})]])
def test_an_answer_without_credentials_is_an_error(found):
    with pytest.raises(CatalogError, match="credentials of uc://a.b.c: the catalog vends none"):
        vended(*found)


def test_credentials_of_paths_have_the_same_form():
    body = {"gcp_oauth_token": {"oauth_token": "o"}, "expiration_time": 5}
    google = msgspec.convert(body, PathCredentials).storage_credential("gs://lake/x")
    assert google == credential({"gcs.oauth-token": "o"}, "gs://lake/x", 5)
    body = {"azure_user_delegation_sas": {"sas_token": "s"}}
    azure = msgspec.convert(body, PathCredentials).storage_credential("az://lake")
    assert azure == credential({"azure.sas-token": "s"}, "az://lake")


def test_a_worker_recreates_the_engine_of_a_table(tmp_path):
    with UnityDouble("s3://lake/managed", token="t-12345") as double, scripted_s3() as s3:
        stores = {name: value for name, value in s3.options.items() if "KEY" not in name}
        options = {**double.options, **stores}
        name = "uc://lake.shop.events"
        bayou.write(name, pa.table({"id": [1]}), storage_options=options)
        opened = open_table(name, options)
        description = opened.engine.description()
        assert description.factory() is unity_engine
        assert "t-12345" not in repr(description)
        engine = from_description(description)
        table = Table.for_path(engine, opened.table.path, opened.table.catalog)
        assert table.latest_snapshot(engine).version == 0
