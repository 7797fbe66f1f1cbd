"""Random histories of a table by two writers, against a dictionary and `deltalake`.

Some hundred steps a run; set BAYOU_TEST_STEPS for a night's.
"""

from __future__ import annotations

import os

import deltalake
import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from bayou.testing.table_machine import TableMachine
from bayou.testing.table_model import Rows

STEPS = int(os.environ.get("BAYOU_TEST_STEPS", "400"))
STEPS_A_HISTORY = 20


class PeerMachine(TableMachine):
    """Every third step is read by `deltalake`, too, where it can."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def read_elsewhere(self, path: str) -> Rows | None:
        self._count += 1
        if self._count % 3:
            return None
        table = deltalake.DeltaTable(path)
        if table.protocol().min_reader_version > 1:
            return None
        return {row["id"]: row for row in pa.table(table.to_pyarrow_table()).to_pylist()}


def test_every_history_comes_to_what_a_dictionary_comes_to() -> None:
    run_state_machine_as_test(
        PeerMachine,
        settings=settings(
            max_examples=max(1, STEPS // STEPS_A_HISTORY),
            stateful_step_count=STEPS_A_HISTORY,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
