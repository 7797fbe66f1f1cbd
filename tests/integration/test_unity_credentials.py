"""Credentials that Unity Catalog vends for tables on S3: use, renewal, and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import bayou
from bayou.errors import BayouError, StorageError
from support.scripted_s3 import scripted_s3
from support.unity_double import UnityDouble
from support.unity_server import ids, rows


@pytest.fixture
def s3_double(double: UnityDouble, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The double with managed tables on an S3 endpoint that accepts vended credentials only."""
    with scripted_s3() as s3:
        double.root = "s3://lake/managed"
        for name, value in s3.options.items():
            if "KEY" not in name:
                monkeypatch.setenv(name, value)
        yield s3


def test_tables_on_s3_are_accessed_with_vended_credentials(s3_double, server, double):
    name = server.name()
    bayou.write(name, rows(0, 3))
    bayou.write(name, rows(10, 1))
    puts = [headers["authorization"] for headers in s3_double.headers.values()]
    assert all("Credential=VENDED" in header for header in puts)
    double.vended.clear()
    assert ids(name) == [0, 1, 2, 10]
    assert {operation for operation, _ in double.vended} == {"READ"}
    bayou.write("uc://lake.shop.external", rows(0, 2), location="s3://lake/external")
    assert "PATH_CREATE_TABLE" in {operation for operation, _ in double.vended}
    assert ids("uc://lake.shop.external") == [0, 1]


def test_credentials_are_renewed_before_they_expire(s3_double, server, double):
    name = server.name()
    bayou.write(name, rows(0, 3))
    table = bayou.table(name)
    double.vended.clear()
    assert table.to_arrow().num_rows == 3
    assert table.to_arrow().num_rows == 3
    assert len(double.vended) == 1
    double.lifetime = 60  # expire while the table is used: less than five minutes are left
    table = bayou.table(name)
    double.vended.clear()
    for i in range(4):
        table.update({"v": str(i)}, predicate="id = 1")
    renewed = [key for operation, key in double.vended if operation == "READ_WRITE"]
    assert len(renewed) > 2
    used = {
        h["authorization"].partition("Credential=")[2].partition("/")[0]
        for h in s3_double.headers.values()
    }
    assert len(used & set(renewed)) > 2


def test_a_reader_without_write_access_reads_and_cannot_write(s3_double, server, double):
    name = server.name()
    bayou.write(name, rows(0, 3))
    double.readers.add("lake.shop.events")
    assert ids(name) == [0, 1, 2]
    with pytest.raises(
        BayouError, match=r"credentials of uc://lake.shop.events: the catalog vends none.*403"
    ):
        bayou.write(name, rows(10, 1))
    assert ids(name) == [0, 1, 2]


def test_a_location_without_credentials_is_an_error(s3_double, server, double, monkeypatch):
    name = server.name()
    bayou.write(name, rows(0, 3))
    credentials = {"storage-credentials": [{"prefix": "s3://lake/managed/tab", "config": {}}]}
    monkeypatch.setattr(double, "_credentials", lambda *_: credentials)
    with pytest.raises(StorageError, match="the catalog vends none for s3://lake/managed"):
        bayou.table(name).to_arrow()
