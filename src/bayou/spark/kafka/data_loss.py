"""The option `failOnDataLoss`: an error or a warning if Kafka lacks records of a read."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from bayou.errors import RecordsLostError

__all__ = ["TO_GO_ON", "DataLoss"]

TO_GO_ON = (
    " To continue with the remaining records, set the option failOnDataLoss to false; to read the "
    "topic from its start, use a new checkpointLocation with startingOffsets earliest."
)
"""The action in the message of `DataLoss`, which pipelines replace by their own."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DataLoss:
    """Reports missing records.

    Attributes:
        fail: whether missing records are an error, and not a warning.
    """

    fail: bool

    def report(self, what: str, topic: str) -> None:
        """Report missing records: raise an error, or log a warning and return.

        Args:
            what: the partition, the missing offsets and the partition's offsets.
            topic: the topic's name.

        Raises:
            RecordsLostError: `fail` is set.
        """
        if self.fail:
            raise RecordsLostError(
                f"Kafka {what}. Kafka's retention deleted the records before they were read, or "
                f"the topic was recreated.{TO_GO_ON}",
                topic=topic,
            )
        logger.warning(
            "Kafka %s. The read continues without the missing records, because failOnDataLoss is "
            "false.",
            what,
        )
