"""Random histories of a table by two writers, against a dictionary and `deltalake`.

Some hundred steps a run. BAYOU_TEST_STEPS asks for more (`make nightly`: 10,000), BAYOU_TEST_SEED
for those of another run, which each run says.
"""

from __future__ import annotations

import os
import random

import deltalake
import pyarrow as pa
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from support.examples import examples
from support.table_machine import TableMachine
from support.table_model import Rows

STEPS = int(os.environ.get("BAYOU_TEST_STEPS", "0")) or examples(500)
STEPS_A_HISTORY = 60
HISTORIES_A_ROUND = 20
SEED = int(os.environ.get("BAYOU_TEST_SEED", random.SystemRandom().randrange(1 << 32)))


class PeerMachine(TableMachine):
    """Every fifth step is read by `deltalake`, too."""

    steps = 0

    def read_elsewhere(self, path: str) -> Rows | None:
        type(self).steps += 1
        if self.steps % 5:
            return None
        builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
        rows = pa.table(builder.execute("SELECT * FROM t").read_all()).to_pylist()
        return {row["id"]: row for row in rows}


def test_every_history_comes_to_what_a_dictionary_comes_to() -> None:
    PeerMachine.steps = 0
    rounds = 0
    while PeerMachine.steps < STEPS:
        print(f"BAYOU_TEST_SEED={SEED + rounds}: from step {PeerMachine.steps} on")
        run_state_machine_as_test(
            seed(SEED + rounds)(PeerMachine),
            settings=settings(
                max_examples=min(HISTORIES_A_ROUND, 1 + STEPS // STEPS_A_HISTORY),
                stateful_step_count=STEPS_A_HISTORY,
                deadline=None,
                database=None,
                phases=[Phase.generate],  # what fails is replayed by its seed
                print_blob=True,
                suppress_health_check=list(HealthCheck),
            ),
        )
        rounds += 1
