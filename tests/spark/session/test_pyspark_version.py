"""Versions of PySpark that are too old are refused in a sentence."""

import zipfile
import zipimport

import pyspark
import pytest

from bayou.errors import PrerequisiteError
from bayou.spark.session.prerequisites import check_pyspark, installed_pyspark, package_version


@pytest.mark.parametrize("version", ["3.5.1", "4.0.1"])
def test_an_old_version_is_refused_by_what_to_install(version):
    with pytest.raises(PrerequisiteError, match=r"pyspark>=4\.1"):
        check_pyspark(version)


@pytest.mark.parametrize("version", ["4.1.0", "4.2.0", "4.3.0", "4.10.0.dev1", "5.0.0", "unknown"])
def test_other_versions_are_taken(version):
    check_pyspark(version)


def test_the_version_is_read_without_an_import():
    assert installed_pyspark() == pyspark.__version__


def test_the_version_is_read_from_a_zip_file_as_in_python_workers(tmp_path):
    with zipfile.ZipFile(tmp_path / "pyspark.zip", "w") as archive:
        archive.writestr("pyspark/__init__.py", "")
        archive.writestr("pyspark/version.py", "# generated\n__version__: str = '4.9.1'\n")
    package = zipimport.zipimporter(str(tmp_path / "pyspark.zip")).find_spec("pyspark")
    assert package_version(package) == "4.9.1"
