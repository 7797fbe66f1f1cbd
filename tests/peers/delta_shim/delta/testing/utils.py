"""`delta.testing.utils`: a session with Bayou enabled, and a folder and a table for each test."""

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf
from pyspark.testing.sqlutils import ReusedSQLTestCase

import bayou.spark


class DeltaTestCase(ReusedSQLTestCase):
    """The base class of the tests."""

    @classmethod
    def conf(cls) -> SparkConf:
        conf: SparkConf = super().conf()
        conf.set("spark.master", "local[2]").set("spark.ui.enabled", "false")
        return conf.set("spark.sql.shuffle.partitions", "5")

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        bayou.spark.enable(cls.spark)

    def setUp(self) -> None:
        super().setUp()
        self.tempPath = tempfile.mkdtemp()
        self.tempFile = str(Path(self.tempPath) / "tempFile")

    def tearDown(self) -> None:
        super().tearDown()
        shutil.rmtree(self.tempPath, ignore_errors=True)

    @contextmanager
    def tempTable(self) -> Iterator[str]:  # noqa: N802  # delta-spark's name
        name = f"table_{uuid.uuid4().hex}"
        with self.table(name):
            yield name
