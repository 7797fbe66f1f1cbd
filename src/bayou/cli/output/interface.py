"""The interfaces for the output of commands, and a reporter that ignores output errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

    from bayou.ingest.events import (
        AttemptFailed,
        BatchReport,
        MaintenanceReport,
        MigrationReport,
        RecordsLost,
        Reporter,
        TopicStarted,
        TopicSummary,
    )
    from bayou.ingest.monitoring import Monitor

Row = Mapping[str, Any]


class ReaderClosedError(BrokenPipeError):
    """The process that reads stdout, such as `head`, closed the pipe.

    A broken pipe to another process, such as Spark's JVM, doesn't raise this error.
    """


class Messages(Protocol):
    """Prints the notices and errors of a command."""

    def notice(self, text: str) -> None:
        """Print a one-line note."""
        ...

    def error(self, message: str, *, kind: str) -> None:
        """Print an error message; `kind` is the name of the error's type."""
        ...


class RowsOutput(Messages, Protocol):
    """Prints rows as a table for people, or as data for programs.

    `ConsoleOutput` prints tables, `DataOutput` prints all other formats of `--output`.
    """

    @property
    def is_table(self) -> bool:
        """Whether rows are printed as a table for people, not as data for programs.

        A table may have fewer columns and digits than the data.
        """
        ...

    def rows(self, title: str, rows: Sequence[Row], *, event: str, empty: str = "") -> None:
        """Print rows that all have the same keys.

        Args:
            event: ignored; only `Output.rows` uses this argument.
            empty: text to print if there are no rows; ignored in formats for programs.
        """
        ...

    def facts(self, title: str, facts: Mapping[str, Any], *, event: str) -> None:
        """Print named values.

        The table format has one line for each value. Other formats have one row with all values.
        """
        ...

    def batches(
        self,
        reader: pa.RecordBatchReader,
        *,
        title: str = "",
        empty: str = "",
        max_rows: int | None = None,
    ) -> None:
        """Print the rows of an Arrow stream.

        `DataOutput` writes batch by batch, and needs constant memory.

        Args:
            title: the title of the printed table.
            empty: text to print if there are no rows; ignored in formats for programs.
            max_rows: maximum number of rows of the printed table. If there are more, a notice
                follows the table. `DataOutput` has no limit.
        """
        ...


class Output(Messages, Protocol):
    """Prints what a command reports.

    `ConsoleOutput` prints results and progress to stdout, and notices and errors to stderr.
    `JsonOutput` prints one object per line to stdout, including notices and errors.
    """

    def step(self, text: str) -> None:
        """Print that a long step starts."""
        ...

    def rows(self, title: str, rows: Sequence[Row], *, event: str, empty: str = "") -> None:
        """Print rows that all have the same keys.

        Args:
            event: type of each object in JSON output, the value of its key `event`.
            empty: text to print if there are no rows; ignored in JSON output.
        """
        ...

    def facts(self, title: str, facts: Mapping[str, Any], *, event: str) -> None:
        """Print a few values by name; `event` is the type of the object in JSON output."""
        ...

    def text(self, title: str, text: str) -> None:
        """Print text verbatim, for reading or copying."""
        ...

    def run(self) -> AbstractContextManager[Reporter]:
        """Return a context manager that shows the progress of a finite run (`run --once`)."""
        ...

    @property
    def is_live(self) -> bool:
        """Whether `watch` shows a live display of the topics' status, such as lag and freshness.

        If True, the argument `monitor` of `watch` must come from
        `bayou.ingest.monitoring.listeners.monitored(..., watch=True)`. Brokers and tables are then
        polled for the display.
        """
        ...

    def watch(self, monitor: Monitor) -> AbstractContextManager[Reporter]:
        """Return a context manager that shows the progress of a continuous run."""
        ...


Event = TypeVar("Event")


class ResilientReporter:
    """A `Reporter` that forwards events to a listener, and ignores output errors.

    The pipeline reports events while it processes a batch. Without this class, an output error,
    such as a full disk, would fail the batch.

    Args:
        on_closed: function that is called when the reader of stdout has closed the pipe.
    """

    def __init__(self, listener: Reporter, on_closed: Callable[[], None]) -> None:
        self._listener = listener
        self._on_closed = on_closed

    def topic_started(self, event: TopicStarted) -> None:
        self._report(self._listener.topic_started, event)

    def batch_committed(self, event: BatchReport) -> None:
        self._report(self._listener.batch_committed, event)

    def attempt_failed(self, event: AttemptFailed) -> None:
        self._report(self._listener.attempt_failed, event)

    def records_lost(self, event: RecordsLost) -> None:
        self._report(self._listener.records_lost, event)

    def migrated(self, event: MigrationReport) -> None:
        self._report(self._listener.migrated, event)

    def maintenance_finished(self, event: MaintenanceReport) -> None:
        self._report(self._listener.maintenance_finished, event)

    def topic_finished(self, event: TopicSummary) -> None:
        self._report(self._listener.topic_finished, event)

    def _report(self, report: Callable[[Event], None], event: Event) -> None:
        try:
            report(event)
        except ReaderClosedError:
            self._on_closed()
        except (OSError, ValueError):
            """Errors after which a line of output is skipped: full disk, closed file, encoding."""
