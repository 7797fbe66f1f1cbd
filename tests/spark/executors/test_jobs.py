"""Jobs of an operation are cancelled when it is interrupted."""

import pytest
from py4j.protocol import Py4JNetworkError

from bayou.spark.executors.jobs import TaggedJobs

pytestmark = pytest.mark.spark


def interrupted(spark):
    with TaggedJobs(spark, "a write").tagged():
        try:
            raise KeyboardInterrupt
        finally:
            raise Py4JNetworkError("Answer from Java side is empty")


def failed_in_a_handler(spark):
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with TaggedJobs(spark, "a write").tagged():
            raise ValueError("no luck") from None


def test_an_interruption_is_raised_although_the_cleanup_after_it_fails(spark):
    with pytest.raises(KeyboardInterrupt):
        interrupted(spark)


def test_an_error_while_an_interruption_is_handled_stays_an_error(spark):
    with pytest.raises(ValueError, match="no luck"):
        failed_in_a_handler(spark)
