from types import SimpleNamespace

from bayou.spark.jvm.jobs import cancel_jobs
from bayou.spark.jvm.objects import JvmError


class Context:
    """A SparkContext whose first calls fail."""

    _jsc = object()

    def __init__(self, failures):
        self.failures, self.canceled = failures, []

    def cancelJobsWithTag(self, tag):  # noqa: N802  # PySpark's name
        if self.failures:
            self.failures -= 1
            raise JvmError("the connection was lost")
        self.canceled.append(tag)


def test_jobs_are_canceled_after_two_failures(caplog):
    context = Context(failures=2)
    cancel_jobs(SimpleNamespace(sparkContext=context), "tag")
    assert context.canceled == ["tag"]
    assert not caplog.records


def test_a_third_failure_to_cancel_jobs_is_logged(caplog):
    context = Context(failures=3)
    cancel_jobs(SimpleNamespace(sparkContext=context), "tag")
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == (
        "Jobs with the tag tag: Spark can't cancel them: the connection was lost. They run until "
        "they finish; cancel them in Spark's web UI."
    )
