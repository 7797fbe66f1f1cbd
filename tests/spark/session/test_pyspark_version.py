"""Versions of PySpark that are too old are refused in a sentence."""

import pytest

from bayou.errors import PrerequisiteError
from bayou.spark.session.prerequisites import check_pyspark


@pytest.mark.parametrize("version", ["3.5.1", "4.0.1"])
def test_an_old_version_is_refused_by_what_to_install(version):
    with pytest.raises(PrerequisiteError, match=r"pyspark>=4\.1"):
        check_pyspark(version)


@pytest.mark.parametrize("version", ["4.1.0", "4.2.0", "4.3.0", "4.10.0.dev1", "5.0.0", "unknown"])
def test_other_versions_are_taken(version):
    check_pyspark(version)
