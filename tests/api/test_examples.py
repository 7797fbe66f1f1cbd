"""The examples in the docstrings of the short API run, and every public name has one."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bayou
import bayou.api
from support.docstring_examples import program_of, write_orders

SOURCES = sorted(Path(bayou.api.__file__).parent.rglob("*.py"))
HANDLES = ("TableHandle", "TableOptimizer")


def docstrings() -> dict[str, str]:
    found: dict[str, str] = {}
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found[f"{source.stem}-{node.name}-{node.lineno}"] = ast.get_docstring(node) or ""
    return found


PROGRAMS = {name: program_of(text) for name, text in docstrings().items() if "Examples:" in text}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_orders("lake/orders")
    orders = bayou.table("lake/orders").to_arrow()
    iceberg = {
        "delta.enableIcebergCompatV2": "true",
        "delta.universalFormat.enabledFormats": "iceberg",
    }
    bayou.write("lake/customers", orders, configuration=iceberg)
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
