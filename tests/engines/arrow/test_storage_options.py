"""What storage options and the environment come to."""

from __future__ import annotations

import datetime as dt

import pytest

from bayou.engines.arrow.storage_options import store_settings
from bayou.errors import ArgumentError


def test_an_http_endpoint_of_the_environment_allows_http():
    settings = store_settings("s3", {}, {"AWS_ENDPOINT_URL": "http://localhost:9000"})
    assert settings.client_options == {"allow_http": "true"}
    assert settings.config == {}


def test_options_come_before_the_environment():
    environment = {"AWS_ENDPOINT_URL": "http://localhost:9000", "AWS_ALLOW_HTTP": "true"}
    options = {"aws_endpoint_url": "https://localhost:9000", "aws_allow_http": "false"}
    assert store_settings("s3", options, environment).client_options == {"allow_http": "false"}


def test_http_is_allowed_where_the_environment_says_so():
    assert store_settings("s3", {}, {"AWS_ALLOW_HTTP": "true"}).client_options == {
        "allow_http": "true"
    }


@pytest.mark.parametrize("endpoint", ["localhost:9000", "http://", "https:///x", "s3.example.com"])
def test_an_endpoint_that_is_no_url_is_an_error_that_names_the_option(endpoint):
    with pytest.raises(ArgumentError, match=r"'aws_endpoint_url' must be a URL"):
        store_settings("s3", {"AWS_ENDPOINT_URL": endpoint}, {})
    with pytest.raises(ArgumentError, match=r"must be a URL"):
        store_settings("s3", {}, {"AWS_ENDPOINT_URL": endpoint})


def test_options_that_only_sound_like_an_endpoint_are_none():
    options = {"azure_use_fabric_endpoint": "true"}
    assert store_settings("abfss", options, {}).config == options


def test_retries_end():
    assert store_settings("s3", {}, {}).retry_config == {"retry_timeout": dt.timedelta(minutes=1)}
    settings = store_settings("s3", {"retry_timeout": "5s", "max_retries": "2"}, {})
    assert settings.retry_config == {"retry_timeout": dt.timedelta(seconds=5), "max_retries": 2}
