"""What `failOnDataLoss` decides: records that were to be read are no longer in Kafka."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from bayou.errors import RecordsLostError

__all__ = ["TO_GO_ON", "DataLoss"]

TO_GO_ON = (
    " To go on with the records that are there, set the option failOnDataLoss to false; to read "
    "the topic from its start, use a new checkpoint location with startingOffsets earliest."
)
"""What the message of `DataLoss` advises, of which who reads by other means says something else."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DataLoss:
    """Fails or warns, as the option says."""

    fail: bool

    def report(self, what: str, topic: str) -> None:
        """Reports one loss. With `fail` unset it returns and the caller goes on with what is there.

        Args:
            what: the partition, the offsets missed and what is there instead.

        Raises:
            RecordsLostError: `fail` is set.
        """
        if self.fail:
            raise RecordsLostError(
                f"Records are missing in Kafka: {what}. Its retention deleted them before they "
                f"were read, or the topic was deleted and created again.{TO_GO_ON}",
                topic=topic,
            )
        logger.warning(
            "Records are missing in Kafka: %s. Going on, as failOnDataLoss is false.", what
        )
