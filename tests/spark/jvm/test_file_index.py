"""`_JavaFileIndex` against Spark's interface."""

from __future__ import annotations

import pytest

from bayou.spark.jvm.file_index import _JavaFileIndex
from bayou.spark.jvm.objects import java_class

pytestmark = pytest.mark.spark


def test_a_file_index_has_all_methods_of_this_spark_s_interface(spark):
    (name,) = _JavaFileIndex.Java.implements
    interface = java_class(spark._jvm, "java.lang.Class").forName(name)
    methods = {m.getName() for m in interface.getMethods()}
    assert {m for m in methods if "$" not in m and not hasattr(_JavaFileIndex, m)} == set()
