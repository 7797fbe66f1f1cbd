"""A query whose JVM doesn't answer."""

from __future__ import annotations

from py4j.protocol import Py4JNetworkError

from bayou.ingest.runtime.streaming_query import BatchQuery
from bayou.ingest.topic_errors import SparkFailedError


class Query:
    """Goes on; the first time that it is asked no answer comes."""

    def __init__(self):
        self.asked = 0

    @property
    def isActive(self):  # noqa: N802  # as Spark calls it
        self.asked += 1
        if self.asked == 1:
            raise Py4JNetworkError("no answer")
        return True

    def exception(self):
        return None


def test_a_query_that_did_not_answer_once_has_failed_and_not_ended_well(tmp_path):
    query = BatchQuery(Query(), topic="events", state_path=tmp_path)
    assert not query.active
    assert isinstance(query.failure(), SparkFailedError)
    assert not query.active  # whoever looks again finds the same


def test_a_query_that_goes_on_has_no_failure(tmp_path):
    quiet = Query()
    quiet.asked = 1
    query = BatchQuery(quiet, topic="events", state_path=tmp_path)
    assert (query.active, query.failure()) == (True, None)
