"""The pages of the Python reference name what there is."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import bayou
import bayou.api

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
PAGES = sorted(path.name for path in FOLDER.glob("bayou*.md"))


def identifiers(page: str) -> list[str]:
    return re.findall(r"^::: (\S+)$", (FOLDER / page).read_text(), re.MULTILINE)


def resolved(identifier: str) -> object:
    parts = identifier.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for name in parts[length:]:
            found = getattr(found, name)
        return found
    raise ModuleNotFoundError(identifier)


@pytest.mark.parametrize("page", PAGES)
def test_every_identifier_of_a_page_exists(page):
    for identifier in identifiers(page):
        assert resolved(identifier) is not None


def test_the_page_of_bayou_has_every_public_name():
    documented = {identifier.rpartition(".")[2] for identifier in identifiers("bayou.md")}
    names = {*bayou.__all__, *bayou.api.__all__} - {"BayouError", "VariantType", "__version__"}
    assert names - documented == set()
