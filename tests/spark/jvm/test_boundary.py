"""Every access to Spark's JVM is in `bayou.spark.jvm` and names the tested Spark versions."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import bayou
from bayou.spark import jvm
from bayou.spark.jvm.objects import TESTED_WITH

SOURCE = Path(bayou.__file__).parent
JVM = Path(jvm.__file__).parent
ACCESS = re.compile(
    r"py4j|java_gateway|java_class\(|\b_gateway|_j(vm|df|sc|rdd|session|sparkSession)\b"
    r"|\._j(c|reader|write|conf|schema|map|seq)\b"
)
"""py4j and the private attributes in which PySpark holds objects of the JVM."""


def test_only_one_package_accesses_the_jvm():
    accesses = [
        f"{file.relative_to(SOURCE)}: {line.strip()}"
        for folder in (SOURCE, *SOURCE.parent.glob("pyspark_bayou*"))
        for file in folder.rglob("*.py")
        if JVM not in file.parents
        for line in file.read_text().splitlines()
        if ACCESS.search(line)
    ]
    assert accesses == []


def test_each_function_of_the_package_names_the_versions_it_is_tested_with():
    untested = []
    for info in pkgutil.iter_modules([str(JVM)]):
        module = importlib.import_module(f"bayou.spark.jvm.{info.name}")
        for name in module.__all__:
            item = f"{module.__name__}.{name}"
            if item not in TESTED_WITH and item not in NOT_IN_THE_JVM:
                untested.append(item)
    assert untested == []
    assert all(versions[-1] == "4.3" for versions in TESTED_WITH.values())


NOT_IN_THE_JVM = {
    f"bayou.spark.jvm.{name}"
    for name in (
        "file_index.FileIndex",
        "file_index.FilesByPartition",
        "file_index.SqlConf",
        "java_files.hadoop_uris",
        "objects.JavaObject",
        "objects.JvmError",
        "objects.TESTED_WITH",
        "objects.error_reason",
        "objects.tested_with",
        "parquet_writer.WrittenFile",
        "readers_writers.ReaderState",
        "readers_writers.WriterState",
        "streaming.MicroBatch",
        "views.ViewColumn",
    )
}
"""Types and functions that hold or compute values in Python."""
