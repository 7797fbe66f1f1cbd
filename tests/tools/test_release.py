"""Releases, the matrix and the workflows name what there is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import matrix
import pytest
import release
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_a_version_without_a_date_is_a_rehearsal_only():
    assert PROJECT["version"] in release._version(rehearse=True)
    changelog = (ROOT / "CHANGELOG.md").read_text()
    if f"## {PROJECT['version']} - unreleased" in changelog:
        with pytest.raises(release.ReleaseError, match="has no date"):
            release._version(rehearse=False)


def test_an_audit_without_its_service_is_one_sentence_that_names_the_option():
    output = "ERROR:pip_audit._cli:aiobotocore: Dependency not found on PyPI: aiobotocore"
    message = release._audit_problem(output)
    assert "can't reach the vulnerability service" in message
    assert "--skip-audit" in message
    assert "found vulnerabilities" in release._audit_problem("Name Version ID\nx 1 PYSEC-1")


def test_the_version_of_the_chart_is_that_of_the_package():
    chart = YAML(typ="safe", pure=True).load(ROOT / "deploy" / "helm" / "bayou" / "Chart.yaml")
    assert chart["version"] == chart["appVersion"] == PROJECT["version"]


def test_the_matrix_has_each_python_with_each_pyspark_once_and_newest_first():
    newest = [(r.python, r.pyspark) for r in matrix.ROWS if r.dependencies == "newest"]
    assert len(newest) == len(set(newest)) == 4 * 3
    assert str(matrix.ROWS[0]) == "Python 3.11, PySpark 4.3, pinned dependencies"


@pytest.mark.parametrize("file", ["test.yml", "matrix.yml", "release.yml"])
def test_the_workflows_run_commands_that_there_are(file):
    text = (ROOT / ".github" / "workflows" / file).read_text()
    commands = re.findall(r"run: (.+)", text)
    assert commands
    for command in commands:
        words = command.split()
        if words[0] == "make":
            assert set(words[1:]) <= TARGETS
        elif words[0] == "python":
            assert (ROOT / words[1]).is_file()


def test_the_image_installs_the_pinned_versions():
    pinned = dict(
        re.findall(
            r"^([\w.-]+)==(\S+?)(?: \\)?$", (ROOT / "constraints.txt").read_text(), re.MULTILINE
        )
    )
    lines = (ROOT / "deploy" / "docker" / "requirements.txt").read_text()
    installed = dict(re.findall(r"^([\w.-]+)==(\S+?)(?: \\)?$", lines, re.MULTILINE))
    normal = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pinned.items()}
    assert {name: v for name, v in installed.items() if normal.get(name) != v} == {}
