"""`DeltaTable` and its builders have the methods and arguments of delta-spark's."""

from __future__ import annotations

import ast
import inspect
import os
from pathlib import Path

import pytest

from bayou.spark import DeltaTable, IdentityGenerator
from bayou.spark.delta_table.merge_builder import DeltaMergeBuilder
from bayou.spark.delta_table.optimize_builder import DeltaOptimizeBuilder
from bayou.spark.delta_table.table_builder import DeltaTableBuilder

OURS = (
    DeltaTable,
    DeltaMergeBuilder,
    DeltaOptimizeBuilder,
    DeltaTableBuilder,
    IdentityGenerator,
)
MORE = {
    "executeCompaction": ["full"],
    "clone": ["transaction_identifiers"],
    "cloneAtVersion": ["transaction_identifiers"],
    "cloneAtTimestamp": ["transaction_identifiers"],
}
"""Arguments that only our methods have, by keyword."""


def theirs(name: str) -> dict[str, list[str]]:
    """Arguments by public method of a class of delta-spark, as its source says."""
    (source,) = Path(os.environ["BAYOU_PEERS"]).glob("lib/python*/site-packages/delta/tables.py")
    tree = ast.parse(source.read_text())
    (found,) = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name]
    methods = [n for n in found.body if isinstance(n, ast.FunctionDef) and n.name[0] != "_"]
    return {
        method.name: [
            *(argument.arg for argument in method.args.args[1:]),
            *([method.args.vararg.arg] if method.args.vararg else []),
        ]
        for method in methods
    }


@pytest.mark.parametrize("ours", OURS, ids=lambda kind: kind.__name__)
def test_methods_and_arguments_are_those_of_delta_spark(ours: type) -> None:
    expected = theirs(ours.__name__)
    found = {
        name: [p for p in inspect.signature(getattr(ours, name)).parameters if p != "self"]
        for name in expected
        if hasattr(ours, name)
    }
    assert found == {name: given + MORE.get(name, []) for name, given in expected.items()}
