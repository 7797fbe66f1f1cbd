"""What an installation promises: light imports, true `__all__`s, no addresses."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import pkgutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import addresses
import pyarrow as pa
import pytest

import bayou

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = sorted(
    ".".join(path.parent.relative_to(ROOT / "src").parts)
    for path in (ROOT / "src").rglob("__init__.py")
)


@pytest.mark.process
@pytest.mark.parametrize(
    ("imports", "heavy"),
    [
        (
            "bayou.kernel",
            {"obstore", "pyspark", "confluent_kafka", "sqlglot", "pandas", "bayou.engines"},
        ),
        (
            "bayou; bayou.table, bayou.write",
            {"pyspark", "confluent_kafka", "sqlglot", "pandas", "rich"},
        ),
    ],
)
def test_an_import_loads_no_heavy_module(imports: str, heavy: set[str]) -> None:
    program = f"import sys, {imports}; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    assert heavy.intersection(loaded.splitlines()) == set()


@pytest.mark.process
def test_importing_bayou_loads_no_other_package() -> None:
    loaded = _modules_after("import bayou")
    assert not loaded & {"pyarrow", "numpy", "msgspec", "importlib.metadata", "bayou.kernel"}


@pytest.mark.process
def test_reading_a_small_table_loads_what_it_needs_only(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    rows = pa.table({"id": [1, 2], "day": ["a", "b"]})
    bayou.write(path, rows, partition_by="day")
    loaded = _modules_after(f"import bayou; bayou.table({path!r}).to_arrow()")
    assert "pyarrow._parquet" in loaded
    assert not loaded & {
        "bayou.api.commands.alter",
        "bayou.api.commands.merge",
        "bayou.engines.arrow.parquet_files.writer",
        "bayou.kernel.commands",
        "bayou.kernel.expressions.evaluation",
        "bayou.kernel.log.spilled_replay",
        "bayou.kernel.scan.data_skipping",
        "bayou.kernel.table_changes",
        "bayou.kernel.table_detail",
        "bayou.kernel.transaction.builder",
        "bayou.unity.client",
        "duckdb",
        "obstore",
        "pandas",
        "polars",
        "sqlglot",
    }


def _modules_after(program: str) -> set[str]:
    printed = subprocess.run(
        [sys.executable, "-c", f"import sys; {program}; print(*sys.modules, sep='\\n')"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    return set(printed.splitlines())


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert bayou.__version__ == project["version"]


@pytest.mark.parametrize("name", PACKAGES)
def test_all_names_of_a_package_are_there_and_none_is_left_out(name: str) -> None:
    package = importlib.import_module(name)
    declared = list(getattr(package, "__all__", ()))
    assert len(declared) == len(set(declared))
    assert [n for n in declared if not hasattr(package, n)] == []
    if not hasattr(package, "DefaultSource"):  # these hold their one class's base, too
        assert _public_names(package) - set(declared) == set()


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_holds_re_exports_only(name: str) -> None:
    path = ROOT / "src" / Path(*name.split(".")) / "__init__.py"
    allowed = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.If)
    odd = [
        ast.unparse(node)
        for node in ast.parse(path.read_text()).body
        if not isinstance(node, allowed)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        and not (isinstance(node, ast.FunctionDef) and node.name in {"__getattr__", "__dir__"})
        and not (isinstance(node, ast.ClassDef) and node.name == "DefaultSource")
    ]
    assert odd == []


def test_every_module_can_be_imported() -> None:
    for package in ("bayou", "pyspark_bayou", "pyspark_bayou_kafka"):
        for module in _modules(importlib.import_module(package)):
            importlib.import_module(module)


def test_the_version_is_that_of_the_distribution() -> None:
    assert bayou.__version__ == importlib.metadata.version("bayou")


def test_types_are_shipped() -> None:
    assert (ROOT / "src" / "bayou" / "py.typed").is_file()


@pytest.mark.process
def test_no_file_holds_the_address_of_a_registry_or_a_machine() -> None:
    found = {
        str(path.relative_to(ROOT)): addresses.found_in(path.read_text(errors="ignore"))
        for path in _files()
    }
    assert {name: lines for name, lines in found.items() if lines} == {}


def _public_names(package: ModuleType) -> set[str]:
    return {
        name
        for name, value in vars(package).items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and name not in {"annotations", "TYPE_CHECKING"}
    }


def _modules(package: ModuleType) -> Iterator[str]:
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            yield module.name


def _files() -> Iterator[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if name and path.is_file() and path.stat().st_size < 1_000_000:
            yield path
