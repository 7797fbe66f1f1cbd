"""Tests of `JsonHandler`."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from bayou.errors import FileMissingError, SerializationError
from bayou.kernel.engine import ByteRange, Engine, FileStatus
from bayou.testing.engine_suites.fixtures import HandlerSuite

_STATS = pa.schema(
    [
        ("numRecords", pa.int64()),
        ("minValues", pa.struct([("a", pa.int32()), ("f", pa.float64()), ("s", pa.string())])),
    ]
)
_LINES = pa.schema([("v", pa.int64())])


class JsonHandlerSuite(HandlerSuite):
    """Tests the contract of `JsonHandler`."""

    def test_each_text_is_a_row(self, engine: Engine) -> None:
        rows = _parse(
            engine,
            [
                '{"numRecords":3,"minValues":{"a":1,"f":1.5,"s":"x"}}',
                '{"minValues":{"s":"é😀\\n"},"numRecords":4}',
            ],
            _STATS,
        )
        assert rows == [
            {"numRecords": 3, "minValues": {"a": 1, "f": 1.5, "s": "x"}},
            {"numRecords": 4, "minValues": {"a": None, "f": None, "s": "é😀\n"}},
        ]

    def test_what_is_not_there_is_null(self, engine: Engine) -> None:
        strings = [None, "{}", '{"numRecords":null,"minValues":null}', "null"]
        assert _parse(engine, strings, _STATS) == [{"numRecords": None, "minValues": None}] * 4

    def test_fields_that_nobody_asked_for_are_ignored(self, engine: Engine) -> None:
        strings = ['{"x":[1,{"y":"z"}],"numRecords":1,"minValues":{"a":2,"q":{"r":[]}}}']
        assert _parse(engine, strings, _STATS) == [
            {"numRecords": 1, "minValues": {"a": 2, "f": None, "s": None}}
        ]

    @pytest.mark.parametrize(
        ("data_type", "text"),
        [
            (pa.int32(), '"1"'),
            (pa.int32(), "2147483648"),
            (pa.int32(), "1.5"),
            (pa.int32(), "true"),
            (pa.int64(), "9223372036854775808"),
            (pa.int64(), "[1]"),
            (pa.int8(), "-129"),
            (pa.float64(), '"x"'),
            (pa.float64(), "1e400"),
            (pa.float32(), "1e39"),
            (pa.float64(), "{}"),
            (pa.string(), "1"),
            (pa.string(), "false"),
            (pa.bool_(), "1"),
            (pa.bool_(), '"true"'),
            (pa.struct([("x", pa.int64())]), "1"),
            (pa.struct([("x", pa.int64())]), "[]"),
            (pa.list_(pa.int64()), "{}"),
            (pa.decimal128(3, 1), "100"),
            (pa.decimal128(3, 1), "1.25"),
            (pa.date32(), '"2024-02-30"'),
            (pa.timestamp("us", "UTC"), "12"),
        ],
    )
    def test_a_value_that_does_not_fit_is_null_and_its_neighbours_are_not(
        self, engine: Engine, data_type: pa.DataType, text: str
    ) -> None:
        schema = pa.schema([pa.field("v", data_type), pa.field("other", pa.int64())])
        strings = ['{"other":1}', f'{{"v":{text},"other":2}}', '{"other":3}']
        assert _parse(engine, strings, schema) == [
            {"v": None, "other": 1},
            {"v": None, "other": 2},
            {"v": None, "other": 3},
        ]

    def test_floats_that_json_lacks_are_strings(self, engine: Engine) -> None:
        types: dict[str, pa.DataType] = {"v": pa.float64(), "s": pa.string()}
        strings = ['{"v":"NaN","s":"NaN"}', '{"v":"Infinity"}', '{"v":"-Infinity"}', '{"v":1}']
        rows = _parse(engine, strings, pa.schema(types))
        assert math.isnan(rows[0]["v"])
        assert rows[0]["s"] == "NaN"
        assert [row["v"] for row in rows[1:]] == [math.inf, -math.inf, 1.0]

    def test_every_type_of_a_table_can_be_read(self, engine: Engine) -> None:
        types: dict[str, pa.DataType] = {
            "byte": pa.int8(),
            "short": pa.int16(),
            "float": pa.float32(),
            "bool": pa.bool_(),
            "decimal": pa.decimal128(38, 2),
            "date": pa.date32(),
            "zoned": pa.timestamp("us", "UTC"),
            "local": pa.timestamp("us"),
            "list": pa.list_(pa.struct([("x", pa.int32())])),
            "map": pa.map_(pa.string(), pa.int64()),
        }
        text = (
            '{"byte":-128,"short":32767,"float":0.5,"bool":true,'
            '"decimal":123456789012345678901234567890123456.78,"date":"2024-01-05",'
            '"zoned":"2024-01-05T10:00:00.123Z","local":"2024-01-05T10:00:00.123456",'
            '"list":[{"x":1},null,{}],"map":{"a":1,"b":null}}'
        )
        assert _parse(engine, [text], pa.schema(types)) == [
            {
                "byte": -128,
                "short": 32767,
                "float": 0.5,
                "bool": True,
                "decimal": Decimal("123456789012345678901234567890123456.78"),
                "date": dt.date(2024, 1, 5),
                "zoned": dt.datetime(2024, 1, 5, 10, 0, 0, 123_000, tzinfo=dt.UTC),
                "local": dt.datetime(2024, 1, 5, 10, 0, 0, 123_456),  # noqa: DTZ001
                "list": [{"x": 1}, None, {"x": None}],
                "map": [("a", 1), ("b", None)],
            }
        ]

    def test_many_texts_keep_their_order_whatever_one_of_them_holds(self, engine: Engine) -> None:
        strings = [f'{{"numRecords":{i},"minValues":{{"f":{i}.5}}}}' for i in range(5000)]
        strings[1234] = '{"numRecords":1234,"minValues":{"f":"NaN"}}'
        strings[4321] = '{"numRecords":"many"}'
        rows = _parse(engine, strings, _STATS)
        expected = [i if i != 4321 else None for i in range(5000)]
        assert [row["numRecords"] for row in rows] == expected
        assert math.isnan(rows[1234]["minValues"]["f"])
        assert rows[4999]["minValues"]["f"] == 4999.5

    def test_a_text_may_have_white_space_and_line_ends(self, engine: Engine) -> None:
        strings = [' {\n"numRecords" :\t1\r\n}\n', '{"numRecords":2}']
        assert [row["numRecords"] for row in _parse(engine, strings, _STATS)] == [1, 2]

    def test_of_a_key_that_comes_twice_the_last_value_counts(self, engine: Engine) -> None:
        rows = _parse(engine, ['{"numRecords":1,"numRecords":2}'], _STATS)
        assert rows[0]["numRecords"] == 2

    def test_no_texts_give_an_empty_batch(self, engine: Engine) -> None:
        assert _parse(engine, [], _STATS) == []

    def test_a_schema_without_columns_still_counts_the_rows(self, engine: Engine) -> None:
        strings: pa.Array[Any] = pa.array(["{}", None, "{}"], pa.string())
        assert engine.json.parse_json(strings, pa.schema([])).num_rows == 3

    def test_a_column_that_may_not_be_null_may_be_absent(self, engine: Engine) -> None:
        schema = pa.schema([pa.field("v", pa.int64(), nullable=False)])
        strings: pa.Array[Any] = pa.array(["{}", '{"v":1}'], pa.string())
        batch = engine.json.parse_json(strings, schema)
        assert batch.schema.equals(schema)
        assert batch.column(0).to_pylist() == [None, 1]

    @pytest.mark.parametrize(
        "text",
        ["", "{", '{"numRecords":1', "[1]", "1", '"x"', "{}{}", "{} x", '{"numRecords":NaN}'],
    )
    def test_what_is_not_a_json_object_is_refused(self, engine: Engine, text: str) -> None:
        with pytest.raises(SerializationError):
            _parse(engine, ['{"numRecords":1}', text, '{"numRecords":2}'], _STATS)

    def test_two_objects_in_one_text_do_not_stand_for_two_texts(self, engine: Engine) -> None:
        with pytest.raises(SerializationError):
            _parse(engine, ['{"numRecords":1}{"numRecords":2}', ""], _STATS)

    def test_rows_that_are_not_selected_are_nulls_whatever_their_texts_hold(
        self, engine: Engine
    ) -> None:
        strings: pa.Array[Any] = pa.array(
            ['{"numRecords":1}', "no JSON", None, '{"numRecords":4}', '{"numRecords":5}'],
            pa.string(),
        )
        selection = pa.array([True, False, True, False, None], pa.bool_())
        batch = engine.json.parse_json(strings, _STATS, selection)
        assert batch.schema.equals(_STATS, check_metadata=True)
        assert batch.column("numRecords").to_pylist() == [1, None, None, None, None]

    def test_a_selected_text_that_is_no_json_is_refused(self, engine: Engine) -> None:
        strings: pa.Array[Any] = pa.array(["{}", "no JSON"], pa.string())
        with pytest.raises(SerializationError):
            engine.json.parse_json(strings, _STATS, pa.array([False, True]))

    def test_no_selected_row_gives_a_batch_of_nulls(self, engine: Engine) -> None:
        strings: pa.Array[Any] = pa.array(["x", "y"], pa.string())
        batch = engine.json.parse_json(strings, _STATS, pa.array([False, False]))
        assert batch.to_pylist() == [{"numRecords": None, "minValues": None}] * 2

    def test_files_are_read_in_their_order_and_no_batch_has_rows_of_two(
        self, engine: Engine, root: str
    ) -> None:
        files = [
            _put(engine, f"{root}/{name}.json", "".join(f'{{"v":{name}{i}}}\n' for i in range(5)))
            for name in (3, 1, 2)
        ]
        with engine.json.read_json_files(iter(files), _LINES, batch_size=2) as batches:
            actual: list[list[Any]] = [batch.column("v").to_pylist() for batch in batches]
        assert all(0 < len(values) <= 2 for values in actual)
        assert all(len({value // 10 for value in values}) == 1 for values in actual)
        assert [value for values in actual for value in values] == [
            name * 10 + i for name in (3, 1, 2) for i in range(5)
        ]

    def test_batches_of_files_have_exactly_the_schema(self, engine: Engine, root: str) -> None:
        schema = pa.schema(
            [
                pa.field("w", pa.struct([("x", pa.int8())]), metadata={"a": "b"}),
                pa.field("v", pa.int64(), nullable=False),
                pa.field("m", pa.map_(pa.string(), pa.string())),
            ]
        )
        file = _put(engine, f"{root}/a.json", '{"v":1,"other":2}\n{"m":{"k":"v"},"v":"x"}')
        with engine.json.read_json_files([file], schema) as batches:
            (batch,) = batches
        assert batch.schema.equals(schema, check_metadata=True)
        assert batch.to_pylist() == [
            {"w": None, "v": 1, "m": None},
            {"w": None, "v": None, "m": [("k", "v")]},
        ]

    def test_blank_lines_and_empty_files_give_no_rows(self, engine: Engine, root: str) -> None:
        empty = _put(engine, f"{root}/empty.json", "")
        blank = _put(engine, f"{root}/blank.json", '\n  \r\n{"v":1}\r\n\n{"v":2}')
        with engine.json.read_json_files([empty, blank, empty], _LINES) as batches:
            assert [batch.column("v").to_pylist() for batch in batches] == [[1, 2]]

    def test_lines_of_several_blocks_of_bytes_are_whole(self, engine: Engine, root: str) -> None:
        filler = "é" * 20_000
        lines = [f'{{"v":{i},"filler":"{filler}"}}' for i in range(500)]  # 20 MB
        file = _put(engine, f"{root}/large.json", "\n".join(lines))
        with engine.json.read_json_files([file, file], _LINES, batch_size=100) as batches:
            actual = [value for batch in batches for value in batch.column("v").to_pylist()]
        assert actual == [*range(500), *range(500)]

    @pytest.mark.parametrize("line", [b"{", b"[1]", b'{"v":1}{"v":2}', b'{"v":"\xff"}'])
    def test_a_bad_line_of_a_file_is_refused_by_file_and_number(
        self, engine: Engine, root: str, line: bytes
    ) -> None:
        engine.files.mkdirs(root)
        path = f"{root}/bad.json"
        engine.files.put(path, b'{"v":1}\n\n' + line + b'\n{"v":2}\n')
        with pytest.raises(SerializationError, match=r"bad\.json, line 3"):
            list(engine.json.read_json_files([engine.files.status(path)], _LINES))

    def test_a_missing_json_file_is_an_error(self, engine: Engine, root: str) -> None:
        gone = FileStatus(path=f"{root}/gone.json", size=3, modification_time=0)
        with pytest.raises(FileMissingError) as caught:
            list(engine.json.read_json_files([gone], _LINES))
        assert caught.value.path == gone.path

    def test_closing_the_reading_of_json_files_ends_it(self, engine: Engine, root: str) -> None:
        file = _put(engine, f"{root}/a.json", '{"v":1}\n{"v":2}\n')
        batches = engine.json.read_json_files([file, file], _LINES, batch_size=1)
        assert next(batches).num_rows == 1
        batches.close()
        assert list(batches) == []

    def test_lines_are_written_with_their_ends(self, engine: Engine, root: str) -> None:
        engine.files.mkdirs(root)
        path = f"{root}/00000000000000000000.json"
        assert engine.json.write_json_file_atomically(path, [b'{"a":1}', b'{"b":2}\n']) is True
        assert _content(engine, path) == b'{"a":1}\n{"b":2}\n'

    def test_a_file_that_is_there_is_overwritten_on_request_only(
        self, engine: Engine, root: str
    ) -> None:
        engine.files.mkdirs(root)
        path = f"{root}/a.json"
        assert engine.json.write_json_file_atomically(path, [b"1"]) is True
        assert engine.json.write_json_file_atomically(path, iter([b"2"])) is False
        assert _content(engine, path) == b"1\n"
        assert engine.json.write_json_file_atomically(path, [b"3"], overwrite=True) is True
        assert _content(engine, path) == b"3\n"


def _put(engine: Engine, path: str, text: str) -> FileStatus:
    engine.files.mkdirs(path.rpartition("/")[0])
    engine.files.put(path, text.encode())
    return engine.files.status(path)


def _parse(engine: Engine, strings: list[Any], schema: pa.Schema) -> list[dict[str, Any]]:
    batch = engine.json.parse_json(pa.array(strings, pa.string()), schema)
    assert batch.schema.equals(schema, check_metadata=True)
    return batch.to_pylist()


def _content(engine: Engine, path: str) -> bytes:
    return next(engine.files.read_files([ByteRange(path=path)]))
