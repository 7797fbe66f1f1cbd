"""The page for users of deltalake names everything that deltalake has."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import deltalake
import pytest
from deltalake.table import TableAlterer, TableMerger, TableOptimizer

from bayou import api
from bayou.api import TableHandle

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "from-deltalake.md"


def public_names(owner: Any) -> list[str]:
    return [
        name
        for name in dir(owner)
        if not name.startswith("_") and not isinstance(getattr(owner, name, None), ModuleType)
    ]


OWNERS = {
    "deltalake": [*deltalake.__all__],
    "DeltaTable": public_names(deltalake.DeltaTable),
    "TableMerger": public_names(TableMerger),
    "TableOptimizer": public_names(TableOptimizer),
    "TableAlterer": public_names(TableAlterer),
    "write_deltalake": list(inspect.signature(deltalake.write_deltalake).parameters),
    "exceptions": public_names(deltalake.exceptions),
}


@pytest.mark.parametrize("owner", OWNERS)
def test_the_page_has_every_public_name(owner):
    page = PAGE.read_text()
    section = page.split(f"<!-- names of {owner} -->")[1].split("<!-- end -->")[0]
    first_cells = "\n".join(re.findall(r"^\| (.*?) \|", section, re.MULTILINE))
    documented = set(re.findall(r"`(\w+)", first_cells))
    names = set(OWNERS[owner])
    assert names - documented == set()
    assert documented - names == set()


SAME = {
    deltalake.DeltaTable: TableHandle,
    TableAlterer: api.TableAlterer,
    TableMerger: api.TableMerger,
    TableOptimizer: api.TableOptimizer,
}
"""Classes of deltalake, and Bayou's with the same methods."""


def test_the_page_has_every_argument_that_a_method_of_the_same_name_lacks():
    section = PAGE.read_text().split("<!-- arguments -->")[1].split("<!-- end -->")[0]
    first_cells = "\n".join(re.findall(r"^\| (.*?) \|", section, re.MULTILINE))
    documented = set(re.findall(r"`(\w+)", first_cells))
    constructor = set(inspect.signature(deltalake.DeltaTable).parameters)
    missing = constructor - {"table_uri", "version", "storage_options"}
    for theirs, ours in SAME.items():
        for name in public_names(theirs):
            method = getattr(ours, name, None)
            if inspect.isfunction(method) and inspect.isfunction(getattr(theirs, name)):
                wanted = inspect.signature(getattr(theirs, name)).parameters
                missing |= set(wanted) - set(inspect.signature(method).parameters)
    assert missing - {"args"} == documented  # `args` is a notice of deltalake's own


def test_the_page_lists_the_second_spellings():
    section = PAGE.read_text().split("## Two spellings")[1].split("## Names of the module")[0]
    spellings = set(re.findall(r"^\| `(?:table\.(\w+)|bayou\.write\((\w+))", section, re.MULTILINE))
    names = {method or argument for method, argument in spellings}
    assert names == {"to_pyarrow_table", "load_cdf", "schema_mode", "predicate"}
    pages = [page for page in PAGE.parent.parent.rglob("*.md") if page != PAGE]
    used = re.compile(r"\.to_pyarrow_table\(|\.load_cdf\(|schema_mode=")
    assert [page.name for page in pages if used.search(page.read_text())] == []
