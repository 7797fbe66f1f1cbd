"""The option `failOnDataLoss`: an error or a warning if records of a read are missing."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from bayou.errors import RecordsLostError

DATA_LOSS_ADVICE = (
    " To continue with the remaining records, set the option failOnDataLoss to false; to read the "
    "topic from its start, use a new checkpointLocation with startingOffsets earliest."
)
"""Advice at the end of a message of `DataLoss`. Pipelines replace it by their own advice."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DataLoss:
    """Reports missing records: raises an error if `fail` is true, otherwise logs a warning."""

    fail: bool

    def report(self, problem: str, topic: str) -> None:
        """Raise `RecordsLostError`, or log a warning and return.

        Args:
            problem: description of the partition and its missing offsets.
        """
        if self.fail:
            raise RecordsLostError(
                f"Kafka {problem}. Kafka's retention deleted the records before they were read, or "
                f"the topic was recreated.{DATA_LOSS_ADVICE}",
                topic=topic,
            )
        logger.warning(
            "Kafka %s. The read continues without the missing records, because failOnDataLoss is "
            "false.",
            problem,
        )
