"""The tree of a pyarrow expression."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from bayou.api.datasets.pushdown.filter_calls import Call, Constant, FieldPath, top_level_columns
from bayou.api.datasets.pushdown.pyarrow_expressions import read_expression


def described(node: Any) -> Any:
    match node:
        case FieldPath(names=names):
            return ".".join(names)
        case Constant(scalar=scalar):
            return scalar.as_py()
        case Call(name=name, arguments=arguments):
            return (name, *map(described, arguments))
    return None


@pytest.mark.parametrize(
    ("expression", "tree"),
    [
        (pc.field("id") == 3, ("equal", "id", 3)),
        (pc.field("a", "b") > 1.5, ("greater", "a.b", 1.5)),
        (
            (pc.field("x") < 1) & ~(pc.field("y") == "z"),
            ("and_kleene", ("less", "x", 1), ("invert", ("equal", "y", "z"))),
        ),
        (pc.field("flag"), "flag"),
        (pc.scalar(True), True),
        (pc.scalar(None), None),
        (pc.field("it's a\n'name'") == 1, ("equal", "it's a\n'name'", 1)),
        (pc.field("i").cast(pa.int8()) == 3, ("equal", ("cast", "i"), 3)),
    ],
    ids=str,
)
def test_an_expression_has_a_tree(expression: Any, tree: Any) -> None:
    assert described(read_expression(expression)) == tree


def test_options_are_read() -> None:
    node = read_expression(pc.field("id").isin(list(range(1000))))
    assert isinstance(node, Call)
    assert node.options["value_set"].as_py() == list(range(1000))


def test_constants_keep_their_type() -> None:
    scalar = pa.scalar(2**62, pa.timestamp("us", "UTC"))
    node = read_expression(pc.field("ts") < scalar)
    assert isinstance(node, Call)
    constant = node.arguments[1]
    assert isinstance(constant, Constant)
    assert constant.scalar == scalar


def test_a_field_without_a_name_has_no_tree() -> None:
    assert read_expression(pc.field(0) == 1) is None
    assert read_expression("not an expression") is None


def test_the_columns_of_a_filter_are_its_top_level_columns() -> None:
    node = read_expression((pc.field("a", "b") > 1) | pc.field("c").is_null())
    assert node is not None
    assert list(top_level_columns(node)) == ["a", "c"]
