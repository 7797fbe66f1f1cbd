"""The error conditions that Bayou names are those of delta-spark's JAR, and so is the SQLSTATE."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bayou.spark.error_conditions import CONDITIONS

if TYPE_CHECKING:
    from conftest import DeltaSpark

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PROGRAM = """
import pathlib
jars = spark.sparkContext.getConf().get("spark.jars").split(",")
(jar,) = [j for j in jars if "delta-spark" in j]
pathlib.Path(path).write_text(jar.removeprefix("file:").replace("///", "/"))
"""


def test_conditions_and_sqlstates_are_delta_sparks(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    found = tmp_path / "jar"
    delta_spark.run(PROGRAM, found)
    with zipfile.ZipFile(found.read_text()) as archive:
        conditions = json.loads(archive.read("error/delta-error-classes.json"))
    ours = {c: state for c, (state, _) in CONDITIONS.items() if c.startswith("DELTA_")}
    assert ours == {c: conditions.get(c.split(".")[0], {}).get("sqlState") for c in ours}
    for condition in ours:
        name, _, rule = condition.partition(".")
        assert not rule or rule in conditions[name]["subClass"]
