"""The path from which Spark's Python workers import PySpark."""

from __future__ import annotations

import zipfile

import pytest

from bayou.ingest.runtime.worker_daemon import path_without_zip


@pytest.fixture
def home(tmp_path):
    """An installed Spark: the package `pyspark` with its ZIP file."""
    home = tmp_path / "installed" / "pyspark"
    (home / "python" / "lib").mkdir(parents=True)
    (home / "__init__.py").touch()
    write_zip(home / "python" / "lib" / "pyspark.zip")
    return home


@pytest.fixture
def zip_file(home):
    return str(home / "python" / "lib" / "pyspark.zip")


def write_zip(file):
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("pyspark/__init__.py", "")
    return str(file)


@pytest.fixture(params=["folder", "zip"])
def other_pyspark(request, tmp_path):
    if request.param == "zip":
        return write_zip(tmp_path / "other.zip")
    (tmp_path / "other" / "pyspark").mkdir(parents=True)
    (tmp_path / "other" / "pyspark" / "__init__.py").touch()
    return str(tmp_path / "other")


def test_the_zip_file_of_the_installed_spark_is_removed(home, zip_file, tmp_path):
    without_init = tmp_path / "project"
    (without_init / "pyspark").mkdir(parents=True)
    path = [zip_file, str(without_init), str(home.parent), str(tmp_path / "none")]
    assert path_without_zip(path, home) == path[1:]


def test_a_linked_folder_is_the_installed_spark_too(home, zip_file, tmp_path):
    (tmp_path / "linked").symlink_to(home.parent)
    path = [zip_file, str(tmp_path / "linked")]
    assert path_without_zip(path, home) == path[1:]


def test_the_zip_file_stays_if_another_pyspark_is_before_the_installed_one(
    home, zip_file, other_pyspark
):
    path = [zip_file, other_pyspark, str(home.parent)]
    assert path_without_zip(path, home) == path
    path = [zip_file, str(home.parent), other_pyspark]
    assert path_without_zip(path, home) == path[1:]


def test_the_zip_file_stays_if_spark_is_not_an_installed_package(home, zip_file, tmp_path):
    path = [zip_file, str(tmp_path)]
    assert path_without_zip(path, home) == path
    (home / "__init__.py").unlink()
    path = [zip_file, str(home.parent)]
    assert path_without_zip(path, home) == path
