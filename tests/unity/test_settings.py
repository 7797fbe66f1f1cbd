"""Names of tables, and the address and the token of a server."""

from __future__ import annotations

import pytest

from bayou.errors import ArgumentError
from bayou.unity.names import TableName, is_unity_name
from bayou.unity.settings import UnitySettings, unity_settings, without_settings


def test_a_name_has_three_parts():
    name = TableName.parse("uc://main.shop-1.Ördérs")
    assert (name.catalog, name.schema, name.table) == ("main", "shop-1", "Ördérs")
    assert str(name) == "uc://main.shop-1.Ördérs"
    assert is_unity_name("UC://a.b.c")
    assert not is_unity_name("s3://a.b.c")
    for wrong in ("uc://a.b", "uc://a.b.c.d", "uc://a.b.", "uc://a b.c.d", "uc://a.b.c/x", "a.b.c"):
        with pytest.raises(ArgumentError, match="isn't the name of a table"):
            TableName.parse(wrong)


def test_options_come_before_the_environment():
    environment = {"UC_URI": "http://env", "UC_TOKEN": "env", "DATABRICKS_HOST": "https://d"}
    settings = unity_settings({"uc_uri": "http://h:8080/"}, environment)
    assert (settings.uri, settings.token) == ("http://h:8080", "env")
    assert unity_settings({}, environment).uri == "http://env"


def test_the_settings_of_databricks_are_used():
    environment = {"DATABRICKS_HOST": "adb-1", "DATABRICKS_TOKEN": "dapi"}
    settings = unity_settings({}, environment)
    assert settings.api == "https://adb-1/api/2.1/unity-catalog"
    assert settings.token == "dapi"
    # The token of one server isn't sent to the other.
    assert unity_settings({}, {**environment, "UC_URI": "http://h"}).token is None


def test_the_token_is_not_shown():
    settings = UnitySettings.of("http://h/api/2.1/unity-catalog", "secret")
    assert "secret" not in repr(settings)
    assert settings.uri == "http://h"
    assert UnitySettings.of(settings.options()["UC_URI"], "secret") == settings


@pytest.mark.parametrize("token", ["a b", "a\n", "a\r\nX-Evil: 1"])
def test_a_token_with_control_characters_is_refused(token):
    with pytest.raises(ArgumentError, match="UC_TOKEN: the value has a space") as caught:
        unity_settings({"UC_URI": "http://h", "UC_TOKEN": token}, {})
    assert token not in str(caught.value)


@pytest.mark.parametrize(
    "uri",
    ["ftp://h", "http://", "https://token@h", "https://u:p@h", "http://h:x", "http://h?a", "h h"],
)
def test_an_address_that_is_not_a_url_is_refused(uri):
    with pytest.raises(ArgumentError, match="UC_URI: this isn't the URL of a server"):
        unity_settings({"UC_URI": uri}, {})


def test_the_settings_are_not_passed_to_stores():
    options = {"UC_URI": "u", "uc_token": "t", "DATABRICKS_TOKEN": "d", "AWS_REGION": "r"}
    assert without_settings(options) == {"AWS_REGION": "r"}
    with pytest.raises(ArgumentError, match="UC_URI: the address .* is missing"):
        unity_settings({}, {})
