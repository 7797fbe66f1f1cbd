"""Random histories of a table by two writers, held against a dictionary (Hypothesis)."""

from __future__ import annotations

from support.alteration_rules import AlterationRules
from support.row_rules import RowConstraints
from support.upkeep_rules import UpkeepRules

__all__ = ["TableMachine"]


class TableMachine(RowConstraints, AlterationRules, UpkeepRules):
    """A Hypothesis state machine: `run_state_machine_as_test(TableMachine, settings=...)`.

    After each step the latest version is read by `ArrowEngine`, `MemoryEngine` and, where there is
    one, another implementation (`read_elsewhere`): all must have the model's rows. Of a table with
    row ids each row keeps its own; of one with a change data feed each version's feed must lead
    from the rows before to those behind it.
    """
