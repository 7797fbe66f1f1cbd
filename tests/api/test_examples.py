"""The examples in the docstrings of the short API run, and every public name has one."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bayou
import bayou.api

SOURCES = sorted(Path(bayou.api.__file__).parent.glob("*.py"))
HANDLES = ("TableHandle", "TableOptimizer")


def docstrings() -> dict[str, str]:
    found: dict[str, str] = {}
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found[f"{source.stem}-{node.name}-{node.lineno}"] = ast.get_docstring(node) or ""
    return found


def program_of(docstring: str) -> str:
    section = docstring.partition("Examples:\n")[2]
    return "\n".join(re.findall(r"^ +(?:>>>|\.\.\.) ?(.*)$", section, re.MULTILINE))


PROGRAMS = {name: program_of(text) for name, text in docstrings().items() if "Examples:" in text}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    feed = {"delta.enableChangeDataFeed": "true"}
    orders = pa.table({"id": [1, 2, 3], "price": [9.0, 12.0, 30.0], "country": ["NZ", "AU", "NZ"]})
    bayou.write("lake/orders", orders, partition_by="country", configuration=feed)
    bayou.write("lake/orders", orders)
    files = tmp_path / "lake" / "parquet_files"
    files.mkdir()
    pa.parquet.write_table(orders, files / "part.parquet")
    exec(compile(PROGRAMS[name], name, "exec"), {"bayou": bayou, "pa": pa})


def test_every_public_name_has_an_example():
    names: dict[str, Any] = {n: getattr(bayou, n) for n in bayou.__all__}
    for handle in HANDLES:
        owner = getattr(bayou.api, handle)
        names |= {
            f"{handle}.{n}": inspect.getattr_static(owner, n)
            for n in dir(owner)
            if not n.startswith("_") and n != "table_uri"
        }
    for n in bayou.api.__all__:
        if inspect.isclass(getattr(bayou.api, n)) and n != "VariantType":
            names[n] = getattr(bayou.api, n)
    lacking = [
        name
        for name, value in names.items()
        if name not in ("BayouError", "__version__") and "Examples:" not in (value.__doc__ or "")
    ]
    assert lacking == []
