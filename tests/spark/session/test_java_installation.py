import stat

import pytest

from bayou.errors import PrerequisiteError
from bayou.spark.session.prerequisites import MINIMUM_JAVA, check_java, major_version


def fake_java(home, text, status=0):
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{text}' >&2\nexit {status}\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return {"JAVA_HOME": str(home), "PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("no such command", None),
    ],
)
def test_the_major_version_is_read_from_what_java_prints(text, version):
    assert major_version(text) == version


@pytest.mark.process
def test_the_java_of_this_machine_will_do():
    assert check_java() >= MINIMUM_JAVA


@pytest.mark.process
def test_an_old_java_is_refused_in_one_sentence(tmp_path):
    environment = fake_java(tmp_path, 'openjdk version "11.0.2"')
    with pytest.raises(PrerequisiteError, match=r"is Java 11\. Spark needs Java 17") as caught:
        check_java(environment)
    assert "\n" not in str(caught.value)


def test_no_java_says_how_to_get_one(tmp_path):
    with pytest.raises(PrerequisiteError, match="Java: it isn't installed"):
        check_java({"PATH": str(tmp_path)})


def test_a_java_home_without_java_is_named(tmp_path):
    with pytest.raises(PrerequisiteError, match=f"JAVA_HOME: .* doesn't exist in {tmp_path}"):
        check_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin"})


@pytest.mark.process
def test_a_java_that_fails_is_named(tmp_path):
    with pytest.raises(PrerequisiteError, match="-version` failed"):
        check_java(fake_java(tmp_path, "crashed", status=1))
