"""Compares random operations of two writers on a table with a model (Hypothesis)."""

from __future__ import annotations

from support.alteration_rules import AlterationRules
from support.row_rules import RowConstraints
from support.upkeep_rules import UpkeepRules

__all__ = ["TableMachine"]


class TableMachine(RowConstraints, AlterationRules, UpkeepRules):
    """A Hypothesis state machine: `run_state_machine_as_test(TableMachine, settings=...)`.

    After each step, `ArrowEngine`, `MemoryEngine` and, if available, another implementation
    (`read_elsewhere`) read the latest version. All must return the rows of the model. With row
    tracking, each row must keep its row id. With a change data feed, the feed of each version must
    turn the rows of the version before it into its own.
    """
