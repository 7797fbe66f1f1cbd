"""Places where no table can be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.errors import (
    FileMissingError,
    StorageError,
    TableNotFoundError,
)
from support.refusals import refused, tree


def into_a_file(folder: Path) -> str:
    (folder / "table").write_text("not a table")
    return str(folder / "table")


def below_a_file(folder: Path) -> str:
    return into_a_file(folder) + "/below"


def beside_a_file_called_log(folder: Path) -> str:
    (folder / "table").mkdir()
    (folder / "table" / "_delta_log").write_text("not a log")
    return str(folder / "table")


def of_a_name_too_long(folder: Path) -> str:
    return str(folder / ("x" * 300))


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (into_a_file, ("table is a file", "another path")),
        (below_a_file, ("table is a file", "another path")),
        (beside_a_file_called_log, ("_delta_log is a file", "another path")),
        (of_a_name_too_long, ("xxx", "too long")),
    ],
)
def test_a_place_where_no_table_can_be_is_named(
    tmp_path: Path, place: Callable[[Path], str], words: tuple[str, ...]
) -> None:
    path = place(tmp_path)
    error = StorageError if place is of_a_name_too_long else FileMissingError
    before = tree(tmp_path)
    with pytest.raises(error) as caught:
        bayou.write(path, pa.table({"k": [1]}))
    assert all(word in str(caught.value) for word in words)
    if place is not of_a_name_too_long:
        for action in (
            bayou.table(path).to_arrow,
            bayou.table(path).delete,
            bayou.table(path).vacuum,
            bayou.table(path).history,
        ):
            with pytest.raises(TableNotFoundError, match="is a file"):
                action()
        assert not bayou.table(path).exists()
    assert tree(tmp_path) == before


def test_a_log_without_commits_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "table" / "_delta_log").mkdir(parents=True)
    table = bayou.table(str(tmp_path / "table"))
    assert not table.exists()
    refused(tmp_path, table.to_arrow, TableNotFoundError, ("no Delta table", "_delta_log"))
    assert bayou.write(table.table_uri, pa.table({"k": [1]})) == 0
