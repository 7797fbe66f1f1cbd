"""What holds for every error of the package."""

from __future__ import annotations

import pickle

from bayou.errors import CorruptSchemaError, CorruptTableError, DataFileError, SchemaError


def test_a_message_about_a_name_that_is_not_utf_8_can_be_printed():
    error = DataFileError("t/a\udcff.parquet is gone.", table="t", file="t/a\udcff.parquet")
    assert str(error).encode() == b"t/a\\udcff.parquet is gone."
    assert str(DataFileError("ä is gone.", table="t", file="ä")) == "ä is gone."


def test_an_unreadable_schema_is_a_corrupt_table_and_a_schema_error_and_survives_pickling():
    error = pickle.loads(pickle.dumps(CorruptSchemaError("No.", table="t", file="f")))
    assert isinstance(error, CorruptTableError)
    assert isinstance(error, SchemaError)
    assert (str(error), error.table, error.file, error.column) == ("No.", "t", "f", None)
