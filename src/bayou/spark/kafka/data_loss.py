"""The option `failOnDataLoss`: an error or a warning if records of a read are missing."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from bayou.errors import RecordsLostError

DATA_LOSS_ADVICE = (
    " To continue with the remaining records, set the option failOnDataLoss to false; to read the "
    "topic from its start, use a new checkpointLocation with startingOffsets earliest."
)
"""Advice at the end of `DataLoss` messages. Pipelines replace this text by their own advice."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DataLoss:
    """Reports missing records of a read.

    Attributes:
        fail: whether a report raises an error. If false, a warning is logged.
    """

    fail: bool

    def report(self, problem: str, topic: str) -> None:
        """Raise `RecordsLostError` if `fail` is true; otherwise log a warning.

        Args:
            problem: description of the partition and its missing offsets.
            topic: the topic's name.
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
