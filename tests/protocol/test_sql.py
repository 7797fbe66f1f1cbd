"""Tokens, names, literals and types in SQL."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot.dialects import Spark

from bayou.protocol.schema import (
    DATE,
    INTEGER,
    LONG,
    STRING,
    ArrayType,
    DecimalType,
    MapType,
    SchemaJsonError,
    StructField,
    StructType,
)
from bayou.protocol.sql import (
    length_limits,
    parse_field,
    quote_identifier,
    quote_if_needed,
    string_literal,
    tokenize,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bigint", LONG),
        (" LONG ", LONG),
        ("decimal", DecimalType(10, 0)),
        ("DECIMAL(12, 3)", DecimalType(12, 3)),
        ("array<date>", ArrayType(element_type=DATE)),
        (
            "map<string,array<int>>",
            MapType(key_type=STRING, value_type=ArrayType(element_type=INTEGER)),
        ),
        (
            "struct<a: int NOT NULL, `b c` map<string, bigint>>",
            StructType(
                (
                    StructField(name="a", data_type=INTEGER, nullable=False),
                    StructField(name="b c", data_type=MapType(key_type=STRING, value_type=LONG)),
                )
            ),
        ),
        (
            "struct<a int COMMENT 'of a', b: int NOT NULL comment \"of b\", c int>",
            StructType(
                (
                    StructField(name="a", data_type=INTEGER, metadata={"comment": "of a"}),
                    StructField(
                        name="b", data_type=INTEGER, nullable=False, metadata={"comment": "of b"}
                    ),
                    StructField(name="c", data_type=INTEGER),
                )
            ),
        ),
        ("struct<>", StructType()),
    ],
)
def test_a_type_is_read(text, expected):
    assert parse_field("c", text).data_type == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bigints",
        "array<int",
        "decimal(10,",
        "int int",
        "varchar",
        "char(0)",
        "array",
        "struct<a int comment>",
    ],
)
def test_what_is_not_a_type_is_refused_with_its_text(text):
    with pytest.raises(SchemaJsonError, match="isn't a type"):
        parse_field("c", text)


def test_length_limits_stand_in_the_metadata_of_the_column():
    field = parse_field("c", "map<char(2),struct<x: array<varchar(3)>, y: int>>")
    assert str(field.data_type) == "map<string,struct<x:array<string>,y:integer>>"
    assert field.metadata == {
        "__CHAR_VARCHAR_TYPE_STRING": "map<char(2),struct<x:array<varchar(3)>,y:int>>"
    }
    assert [(limit.path, str(limit)) for limit in length_limits(field)] == [
        (("key",), "char(2)"),
        (("value", "x", "element"), "varchar(3)"),
    ]


def test_a_column_without_limits_has_no_metadata():
    assert parse_field("c", "string").metadata == {}
    assert length_limits(parse_field("c", "string")) == ()


@pytest.mark.parametrize(
    ("name", "always", "if_needed"),
    [
        ("a", "`a`", "a"),
        ("a_1", "`a_1`", "a_1"),
        ("a b", "`a b`", "`a b`"),
        ("a`b", "`a``b`", "`a``b`"),
    ],
)
def test_a_name_is_quoted_as_spark_quotes_it(name, always, if_needed):
    assert quote_identifier(name) == always
    assert quote_if_needed(name) == if_needed


def shown(sql):
    return [(token.kind, token.text) for token in tokenize(sql)]


@pytest.mark.parametrize(
    ("sql", "tokens"),
    [
        ("", []),
        ("  ", []),
        ("a ü1 _b 1c", [("word", "a"), ("word", "ü1"), ("word", "_b"), ("word", "1c")]),
        ("`a``b` ``", [("quoted", "a`b"), ("quoted", "")]),
        ("'it''s' 'x\"y'", [("string", "it's"), ("string", 'x"y')]),
        (r"'a\'b\\' R'\'", [("string", "a'b\\"), ("string", "\\")]),
        (r"'100\% \n\q'", [("string", "100\\% \nq")]),
        ("X'00ff'", [("binary", "X'00ff'")]),
        ("TIMESTAMP'x'", [("word", "TIMESTAMP"), ("string", "x")]),
        ("10L .5 1.5BD 2e-3", [("number", n) for n in ("10L", ".5", "1.5BD", "2e-3")]),
        ("a.5", [("word", "a"), ("sign", "."), ("number", "5")]),
        ("a::int", [("word", "a"), ("sign", "::"), ("word", "int")]),
        ("a>>b", [("word", "a"), ("sign", ">"), ("sign", ">"), ("word", "b")]),
        ("{{a}} {b}", [("sign", "{{"), ("word", "a"), ("sign", "}}"), ("sign", "{"), ("word", "b"),
                       ("sign", "}")]),
        ("a -- it's\n/* b /* c */ `*/ d", [("word", "a"), ("word", "d")]),
        ("-- a \\\n b\nc", [("word", "c")]),
        ("a -- b\rc -- d\r\ne", [("word", "a"), ("word", "c"), ("word", "e")]),
        ("a 'b c", [("word", "a"), ("open", "'"), ("word", "b"), ("word", "c")]),
        ("/* a", [("open", "/*"), ("word", "a")]),
    ],
)  # fmt: skip
def test_tokens_are_those_of_spark(sql, tokens):
    assert shown(sql) == tokens


@given(st.text(alphabet=st.sampled_from("a1.'\"`\\/*-\n {}:eEr")))
def test_tokens_are_in_order_and_only_blanks_and_comments_are_between(sql):
    at = 0
    for token in tokenize(sql):
        assert at <= token.start < token.end
        assert sql[at : token.start].strip() == "" or sql[at : token.start].lstrip()[:1] in "-/"
        at = token.end


@given(st.text())
def test_a_string_literal_has_its_string_here_and_in_sqlglot(string):
    literal = string_literal(string)
    assert shown(literal) == [("string", string)]
    assert [token.text for token in Spark().tokenize(literal)] == [string]
