"""The transaction identifier in a session's conf: delta-spark's `txnAppId` and `txnVersion`."""

from __future__ import annotations

import logging
from typing import Any

from bayou.spark.jvm.objects import error_reason
from bayou.spark.session.settings import conf_flag

TRANSACTION_APP = "spark.databricks.delta.write.txnAppId"
TRANSACTION_VERSION = "spark.databricks.delta.write.txnVersion"
_RESET = f"{TRANSACTION_VERSION}.autoReset.enabled"

_LOG = logging.getLogger(__name__)


def reset_transaction_version(spark: Any, table: str) -> None:
    """Unset `txnVersion` in the session's conf if the conf enables the automatic reset.

    Operations call this function after their commit. Without the reset, the next operation would
    have the same transaction identifier, and would be skipped. An error is logged and not raised,
    because the operation is already committed.
    """
    try:
        if conf_flag(spark, _RESET):
            spark.conf.unset(TRANSACTION_VERSION)
    except Exception as error:  # noqa: BLE001  # the commit is valid
        _LOG.warning(
            "%s: the operation is committed, but %s can't be reset: %s. Unset the "
            "setting. Otherwise the next operation is skipped.",
            table,
            TRANSACTION_VERSION,
            error_reason(error).removesuffix("."),
        )
