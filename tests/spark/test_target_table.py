"""`TargetTable`: operations with a transaction identifier."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa

import bayou
from bayou.spark.jvm.objects import JvmError
from bayou.spark.target_table import TargetTable

VERSION = "spark.databricks.delta.write.txnVersion"


class Conf:
    """A session's conf that can be read but not changed."""

    def get(self, key, default=None):
        values = {
            "spark.databricks.delta.write.txnAppId": "job",
            VERSION: "1",
            f"{VERSION}.autoReset.enabled": "true",
        }
        return values.get(key, default)

    def unset(self, key):
        raise JvmError("the connection was lost")


class Target(TargetTable):
    def snapshot(self):
        return bayou.table(self.location).snapshot().kernel


def test_an_operation_succeeds_although_its_version_cannot_be_reset(tmp_path, caplog):
    bayou.write(tmp_path, pa.table({"id": [1]}))
    target = Target(spark=SimpleNamespace(conf=Conf()), location=str(tmp_path))
    assert target.commit_once(lambda snapshot: snapshot.version) == 0
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == (
        f"{tmp_path}: the operation is committed, but {VERSION} can't be reset: the connection was "
        "lost. Unset the setting. Otherwise the next operation is skipped."
    )
