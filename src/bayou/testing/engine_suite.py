"""The conformance tests of engines, which verify the contracts of `bayou.kernel.engine`.

Run them for a custom engine with pytest:

    class TestMyEngine(EngineSuite):
        @pytest.fixture
        def engine(self) -> Engine:
            return MyEngine()

        @pytest.fixture
        def root(self, tmp_path: Path) -> str:
            return str(tmp_path)
"""

from __future__ import annotations

from bayou.testing.engine_suites.expressions import ExpressionHandlerSuite
from bayou.testing.engine_suites.files import FileSystemClientSuite
from bayou.testing.engine_suites.json import JsonHandlerSuite
from bayou.testing.engine_suites.parquet_footers import ParquetFooterSuite
from bayou.testing.engine_suites.parquet_layouts import ParquetLayoutSuite
from bayou.testing.engine_suites.parquet_reading import ParquetReadingSuite
from bayou.testing.engine_suites.parquet_writing import ParquetWritingSuite


class EngineSuite(
    FileSystemClientSuite,
    JsonHandlerSuite,
    ParquetReadingSuite,
    ParquetLayoutSuite,
    ParquetFooterSuite,
    ParquetWritingSuite,
    ExpressionHandlerSuite,
):
    """All tests of all handlers. Subclasses define the fixtures `engine` and `root`."""
