"""The audit of a release on a machine that can't reach the vulnerability service."""

from __future__ import annotations

import argparse
import json
import urllib.request
from pathlib import Path

import pytest
import release
from advisory_service import advisory_service, vulnerabilities

ADVISORY = """
id: PYSEC-2024-1
aliases: [CVE-2024-1]
details: Something is unsafe.
affected:
- package: {ecosystem: PyPI, name: some-package}
  ranges:
  - type: ECOSYSTEM
    events:
    - introduced: 1.0.0
    - fixed: 1.2.0
    - introduced: 2.0.0
    - last_affected: 2.1.0
  versions: [0.9.1]
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    folder = tmp_path / "vulns" / "some-package"
    folder.mkdir(parents=True)
    (folder / "PYSEC-2024-1.yaml").write_text(ADVISORY)
    withdrawn = ADVISORY.replace("2024-1", "2024-2") + "withdrawn: 2024-05-01T00:00:00Z\n"
    (folder / "PYSEC-2024-2.yaml").write_text(withdrawn)
    return tmp_path


@pytest.mark.parametrize(
    ("version", "affected"),
    [
        ("0.9.0", False),
        ("0.9.1", True),
        ("1.0.0", True),
        ("1.1.9", True),
        ("1.2.0", False),
        ("2.0.0", True),
        ("2.1.0", True),
        ("2.1.1", False),
    ],
)
def test_a_version_is_affected_if_it_is_listed_or_in_a_range(database, version, affected):
    found = vulnerabilities(database, "some-package", version)
    assert [advisory["id"] for advisory in found] == (["PYSEC-2024-1"] if affected else [])


def test_a_package_without_advisories_has_no_vulnerabilities(database):
    assert vulnerabilities(database, "another-package", "1.0.0") == []


def test_the_service_answers_as_pip_audit_asks(database):
    def ask(package: str) -> dict[str, object]:
        query = {"package": {"name": package, "ecosystem": "PyPI"}, "version": "1.1.0"}
        with urllib.request.urlopen(url, json.dumps(query).encode()) as answer:
            return json.load(answer)

    with advisory_service(database) as url:
        assert [v["id"] for v in ask("some-package")["vulns"]] == ["PYSEC-2024-1"]
        assert ask("another-package") == {}


def test_a_folder_without_advisories_is_refused(tmp_path):
    options = argparse.Namespace(skip_audit=False, advisories=tmp_path)
    with pytest.raises(release.ReleaseError, match="has no folder `vulns`"):
        release._vulnerabilities(options)
