"""The package has every name and parameter of deltalake, or refuses it as its page says."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import deltalake
import pytest
from deltalake import table as their_table
from deltalake import transaction as their_transaction

import bayou.deltalake
from bayou.deltalake import commands, exceptions, properties, schema, table

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "from-deltalake.md"
PAIRS = {
    "DeltaTable": (deltalake.DeltaTable, table.DeltaTable),
    "TableMerger": (their_table.TableMerger, commands.TableMerger),
    "TableOptimizer": (their_table.TableOptimizer, commands.TableOptimizer),
    "TableAlterer": (their_table.TableAlterer, commands.TableAlterer),
    "QueryBuilder": (deltalake.QueryBuilder, bayou.deltalake.QueryBuilder),
}
FUNCTIONS = {
    "write_deltalake": (deltalake.write_deltalake, bayou.deltalake.write_deltalake),
    "convert_to_deltalake": (deltalake.convert_to_deltalake, bayou.deltalake.convert_to_deltalake),
    "CommitProperties": (their_transaction.CommitProperties, properties.CommitProperties),
    "WriterProperties": (deltalake.WriterProperties, properties.WriterProperties),
    "ColumnProperties": (deltalake.ColumnProperties, properties.ColumnProperties),
    "BloomFilterProperties": (deltalake.BloomFilterProperties, properties.BloomFilterProperties),
    "PostCommitHookProperties": (
        their_transaction.PostCommitHookProperties,
        properties.PostCommitHookProperties,
    ),
}
REFUSED = {"repair", "deletion_vectors", "create_write_transaction", "table_config"}


def methods():
    for owner, (theirs, ours) in PAIRS.items():
        for name in ["__init__", *dir(theirs)]:
            method = getattr(theirs, name)
            is_ours = owner in ("DeltaTable", "QueryBuilder")
            if inspect.isroutine(method) and (
                not name.startswith("_") or (name == "__init__" and is_ours)
            ):
                yield pytest.param(method, getattr(ours, name), id=f"{owner}.{name}")


def parameters(function):
    found = inspect.signature(function).parameters.values()
    return [p.name for p in found if p.kind is not p.VAR_POSITIONAL and p.name != "self"]


@pytest.mark.parametrize(("theirs", "ours"), [*methods()])
def test_a_method_has_the_parameters_in_the_same_order(theirs, ours):
    if theirs.__name__ not in REFUSED:
        assert parameters(ours)[: len(parameters(theirs))] == parameters(theirs)


@pytest.mark.parametrize(("theirs", "ours"), [*FUNCTIONS.values()], ids=[*FUNCTIONS])
def test_a_function_has_the_parameters_in_the_same_order(theirs, ours):
    assert parameters(ours) == parameters(theirs)


def test_every_property_of_a_class_exists_or_is_refused():
    for theirs, ours in PAIRS.values():
        names = {name for name in dir(theirs) if not name.startswith("_")}
        assert names - {name for name in dir(ours) if not name.startswith("_")} <= REFUSED


def test_every_public_name_exists_or_says_what_to_use():
    missing = set(deltalake.__all__) - set(bayou.deltalake.__all__)
    assert missing == {"enable_nanosecond_timestamps", "init_tracing", "rust_core_version"}
    for name in missing:
        with pytest.raises(AttributeError, match="Use "):
            getattr(bayou.deltalake, name)
    for name in bayou.deltalake.__all__:
        assert getattr(bayou.deltalake, name) is not None
    assert set(exceptions.__all__) == set(deltalake.exceptions.__all__)
    assert set(schema.__all__) == set(deltalake.schema.__all__)


def test_every_table_feature_but_nanoseconds_exists():
    theirs = {name for name in dir(deltalake.TableFeatures) if not name.startswith("_")}
    assert theirs - set(properties.TableFeatures.__members__) == {"TimestampNanos"}


def test_the_page_lists_what_is_refused_and_what_has_no_effect():
    page = PAGE.read_text()
    refused = _names(page, "refused")
    assert refused >= REFUSED | {"keep_versions", "error_on_type_mismatch", "as_large_types"}
    known = {name for pair in FUNCTIONS.values() for name in parameters(pair[0])} | set(
        deltalake.__all__
    )
    for theirs, _ in PAIRS.values():
        for name in dir(theirs):
            member = getattr(theirs, name)
            known.add(name)
            if inspect.isroutine(member) and (name == "__init__" or not name.startswith("_")):
                known |= set(parameters(member))
    assert refused - known == set()
    assert _names(page, "no effect") - known == set()


@pytest.mark.process
def test_the_import_loads_neither_pyarrow_nor_pandas_nor_duckdb():
    program = (
        "import sys, bayou.deltalake\n"
        "print(sorted({'pyarrow', 'pandas', 'duckdb', 'polars'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert found.stdout.decode().strip() == "[]"


def _names(page, section):
    rows = page.split(f"<!-- {section} -->")[1].split("<!-- end -->")[0]
    first_cells = "\n".join(re.findall(r"^\| (.*?) \|", rows, re.MULTILINE))
    return set(re.findall(r"`(\w+)", first_cells))
