"""What a session says of S3, and which of it counts."""

from __future__ import annotations

import pytest

from bayou.spark.session.hadoop_storage import with_session_storage
from bayou.spark.session.storage_options import storage_options

pytestmark = pytest.mark.spark

PATH = "s3a://lake/events"


@pytest.fixture
def session(spark):
    """A session of the test's own: what is set in it is seen nowhere else."""
    return spark.newSession()


def test_nothing_is_said_of_other_stores_and_hadoops_own_defaults_say_nothing(session):
    session.conf.set("fs.s3a.access.key", "A")
    assert with_session_storage(session, "/lake/events", {}) == {}
    assert with_session_storage(session, None, {}) == {}
    session.conf.unset("fs.s3a.access.key")
    assert with_session_storage(session, PATH, {}) == {}


def test_the_sessions_conf_goes_over_hadoops_and_a_buckets_over_both(session):
    hadoop = session.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.s3a.access.key", "of hadoop")
    hadoop.set("fs.s3a.path.style.access", "false")
    try:
        found = with_session_storage(session, PATH, {})
        assert found == {
            "fs.s3a.access.key": "of hadoop",
            "fs.s3a.path.style.access": "false",
        }
        for name in ("fs.s3a.access.key", "spark.hadoop.fs.s3a.access.key"):
            session.conf.set(name, "of the session")
            assert with_session_storage(session, PATH, {})["fs.s3a.access.key"] == "of the session"
            session.conf.unset(name)
        session.conf.set("spark.hadoop.fs.s3a.bucket.lake.access.key", "of the bucket")
        assert with_session_storage(session, PATH, {})["fs.s3a.access.key"] == "of the bucket"
        other = with_session_storage(session, "s3://other/events", {})
        assert other["fs.s3a.access.key"] == "of hadoop"
    finally:
        hadoop.unset("fs.s3a.access.key")
        hadoop.unset("fs.s3a.path.style.access")


@pytest.mark.parametrize("given", ["AWS_ACCESS_KEY_ID", "fs.s3a.access.key"])
def test_credentials_are_taken_from_one_place_and_the_rest_is_completed(session, given):
    session.conf.set("fs.s3a.session.token", "of other credentials")
    session.conf.set("fs.s3a.secret.key", "of other credentials")
    session.conf.set("fs.s3a.endpoint", "localhost:9000")
    session.conf.set("fs.s3a.connection.ssl.enabled", "false")
    session.conf.set("fs.s3a.endpoint.region", "eu-west-1")
    found = storage_options(with_session_storage(session, PATH, {given: "A"}))
    assert found == {
        "aws_access_key_id": "A",
        "aws_endpoint_url": "http://localhost:9000",
        "aws_allow_http": "true",
        "aws_region": "eu-west-1",
    }


def test_the_key_of_a_bucket_is_used_without_the_token_of_all_buckets(session):
    session.conf.set("fs.s3a.access.key", "A")
    session.conf.set("fs.s3a.secret.key", "secret")
    session.conf.set("fs.s3a.session.token", "of key A")
    session.conf.set("fs.s3a.bucket.lake.access.key", "B")
    session.conf.set("fs.s3a.bucket.lake.secret.key", "of key B")
    found = storage_options(with_session_storage(session, PATH, {}))
    assert found == {"aws_access_key_id": "B", "aws_secret_access_key": "of key B"}
    found = storage_options(with_session_storage(session, "s3a://other/events", {}))
    assert found["aws_session_token"] == "of key A"
    session.conf.set("fs.s3a.bucket.same.access.key", "A")
    found = storage_options(with_session_storage(session, "s3a://same/events", {}))
    assert found["aws_session_token"] == "of key A"


def test_anonymous_credentials_leave_requests_unsigned(session):
    provider = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
    session.conf.set("fs.s3a.aws.credentials.provider", provider)
    found = storage_options(with_session_storage(session, PATH, {}))
    assert found == {"aws_skip_signature": "true"}


AZURE = "abfss://lake@account.dfs.core.windows.net/events"


def test_the_sessions_keys_of_azure_are_those_of_the_account_of_the_path(session):
    session.conf.set("spark.hadoop.fs.azure.account.key", "of all accounts")
    assert storage_options(with_session_storage(session, AZURE, {})) == {
        "azure_storage_account_key": "of all accounts"
    }
    host = "account.dfs.core.windows.net"
    session.conf.set(f"fs.azure.account.key.{host}", "of the account")
    assert storage_options(with_session_storage(session, AZURE, {})) == {
        "azure_storage_account_key": "of the account"
    }
    other = AZURE.replace("@account", "@other")
    assert with_session_storage(session, other, {})["fs.azure.account.key"] == "of all accounts"
    assert with_session_storage(session, AZURE, {"AZURE_STORAGE_SAS_TOKEN": "s"}) == {
        "AZURE_STORAGE_SAS_TOKEN": "s"
    }
    assert with_session_storage(session, PATH, {}) == {}


def test_the_sessions_service_principal_of_azure_has_the_tenant_of_its_endpoint(session):
    for name, value in (
        ("client.id", "c"),
        ("client.secret", "s"),
        ("client.endpoint", "https://login.example.com/the-tenant/oauth2/token"),
    ):
        session.conf.set(f"fs.azure.account.oauth2.{name}", value)
    assert storage_options(with_session_storage(session, AZURE, {})) == {
        "azure_client_id": "c",
        "azure_client_secret": "s",
        "azure_tenant_id": "the-tenant",
    }


def test_the_sessions_key_file_of_google_is_used(session):
    name = "fs.gs.auth.service.account.json.keyfile"
    session.conf.set(name, "/key.json")
    found = with_session_storage(session, "gs://bucket/t", {})
    assert storage_options(found) == {"google_service_account": "/key.json"}
    assert with_session_storage(session, "gs://bucket/t", {"GOOGLE_BEARER_TOKEN": "t"}) == {
        "GOOGLE_BEARER_TOKEN": "t"
    }
