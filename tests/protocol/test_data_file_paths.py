"""Which paths in a log name one file, and how writers spell it."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.protocol.file_names import canonical_path, data_file_path_to_uri, equivalent_paths

AWKWARD = "aZ0_-.~!*'(),;:$&+=@ %#?[]{}|\\^`\"<>é日😀\u00a0\u2028"
DECODED = st.text(
    st.one_of(st.sampled_from(AWKWARD), st.characters(codec="utf-8")), min_size=1, max_size=20
).filter(lambda path: not path.startswith("/"))


@pytest.mark.parametrize(
    "same",
    [
        ("p=ä/a", "p=%C3%A4/a", "p=%c3%a4/a"),
        ("p=b c/a", "p=b%20c/a"),
        ("p=x%253Ay/a", "p%3Dx%253Ay/a"),
        ("d*/a", "d%2A/a", "d%2a/a"),
        ("x%3Ay", "x%3ay"),
        ("file:/x/y%20z", "file:///x/y z", "FILE://localhost/x/y%20z"),
        ("/x/y%20z", "/x/y z"),
        ("s3://bucket/ä", "s3://bucket/%C3%A4"),
        ("emoji-😀", "emoji-%F0%9F%98%80"),
    ],
)
def test_spellings_of_one_file_have_one_canonical_path(same):
    assert len({canonical_path(path) for path in same}) == 1


@pytest.mark.parametrize("path", ["file:/x/y%20z", "file:///x/y%20z"])
def test_a_local_file_is_spelled_with_one_slash_and_with_three(path):
    assert set(equivalent_paths(path)) == {
        f"{slashes}/x/y{space}z" for slashes in ("file:", "file://") for space in (" ", "%20")
    }


@pytest.mark.parametrize(
    "paths",
    [
        ("p=b%20c/a", "p=b%2520c/a"),
        ("a", "./a"),
        ("x%3A/y", "x:/y"),
        ("file%3A/y", "file:/y", "file://host/y"),
        ("s3://a/b", "s3a://a/b", "s3://a/c"),
        ("/table/a", "a", "file:/table/a", "s3:/table/a"),
        ("%2Fa", "/a"),
        ("e\u0301", "\u00e9"),
        ("A", "a"),
        ("%FF", "%FE", "%25FF", "%DC%FF", "\ufffd"),
    ],
)
def test_different_files_have_different_canonical_paths(paths):
    assert len({canonical_path(path) for path in paths}) == len(paths)


def test_a_path_in_which_nothing_is_escaped_has_one_spelling():
    path = "day=2024-01-05/part-00000-7b62330d-5152-4981-884a-b395d9692998.c000.snappy.parquet"
    assert equivalent_paths(path) == (path,)
    assert canonical_path(path) is path


@pytest.mark.parametrize(
    ("writer", "text"),
    [
        ("delta-spark", "p=ä%20%7B*%7D/a"),
        ("Bayou", "p=%C3%A4%20%7B*%7D/a"),
        ("deltalake", "p=%C3%A4%20%7B%2A%7D/a"),
        ("the Rust kernel", "p=%C3%A4%20%7B*%7D/a"),
        ("nobody escaped", "p=ä {*}/a"),
        ("in lower case", "p=%c3%a4%20%7b*%7d/a"),
    ],
)
def test_what_each_writer_makes_of_a_path_is_a_spelling(writer, text):
    for path in ("p=ä%20%7B*%7D/a", "p=%C3%A4%20%7B%2A%7D/a", "p=ä {*}/a"):
        assert text in equivalent_paths(path)


def test_octets_that_are_no_text_stay_escaped():
    assert equivalent_paths("p=%FF/a") == ("p=%FF/a", "p=%ff/a")


def test_canonical_paths_of_octets_that_are_no_text_are_text():
    assert canonical_path("p=%FF/a%20b") == canonical_path("p%3D%ff/a b")
    canonical_path("p=%FF/a%20b").encode()


@given(DECODED)
def test_every_spelling_names_the_same_file_and_knows_all_others(path):
    uri = data_file_path_to_uri(path)
    known = equivalent_paths(uri)
    assert uri in known
    assert quote(path, safe="/=").replace("%7E", "~") in known
    for text in known:
        assert canonical_path(text) == canonical_path(uri)
        assert set(equivalent_paths(text)) == set(known)
        text.encode()


@given(DECODED, DECODED)
def test_canonical_paths_are_equal_where_decoded_paths_are(one, other):
    first, second = (canonical_path(data_file_path_to_uri(path)) for path in (one, other))
    assert (first == second) == (one == other)
