"""The parts of `EngineSuite`: tests for each handler of an engine."""

from bayou.testing.engine_suites.expressions import ExpressionHandlerSuite
from bayou.testing.engine_suites.files import FileSystemClientSuite
from bayou.testing.engine_suites.json import JsonHandlerSuite
from bayou.testing.engine_suites.parquet_footers import ParquetFooterSuite
from bayou.testing.engine_suites.parquet_layouts import ParquetLayoutSuite
from bayou.testing.engine_suites.parquet_reading import ParquetReadingSuite
from bayou.testing.engine_suites.parquet_writing import ParquetWritingSuite

__all__ = [
    "ExpressionHandlerSuite",
    "FileSystemClientSuite",
    "JsonHandlerSuite",
    "ParquetFooterSuite",
    "ParquetLayoutSuite",
    "ParquetReadingSuite",
    "ParquetWritingSuite",
]
