import logging
from types import SimpleNamespace

from bayou.spark.jvm.jobs import cancel_jobs
from bayou.spark.jvm.objects import JvmError


class Context:
    """A SparkContext whose first calls fail."""

    _jsc = object()

    def __init__(self, failures, error=None):
        self.failures, self.canceled = failures, []
        self.error = error or JvmError("the connection was lost")

    def cancelJobsWithTag(self, tag):  # noqa: N802  # PySpark's name
        if self.failures:
            self.failures -= 1
            raise self.error
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


def test_a_jvm_that_has_ended_is_reported_once(caplog):
    context = Context(failures=3, error=ConnectionRefusedError(111, "Connection refused"))
    cancel_jobs(SimpleNamespace(sparkContext=context), "tag")
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == (
        "Jobs with the tag tag: they can't be canceled, because Spark's JVM has ended. Start a new "
        "Spark session."
    )
    assert context.failures == 2


def test_py4j_logs_nothing_while_jobs_are_canceled(caplog):
    class LostConnection(Context):
        def cancelJobsWithTag(self, tag):  # noqa: N802  # PySpark's name
            logged = ("py4j", "/site/py4j/java_gateway.py"), ("root", "/site/other.py")
            for name, path in logged:
                record = logging.LogRecord(name, logging.ERROR, path, 1, "lost", None, None)
                logging.getLogger().handle(record)
            super().cancelJobsWithTag(tag)

    cancel_jobs(SimpleNamespace(sparkContext=LostConnection(failures=0)), "tag")
    logging.getLogger().handle(
        logging.LogRecord("py4j", logging.ERROR, "/site/py4j/x.py", 1, "later", None, None)
    )
    assert [record.getMessage() for record in caplog.records] == ["lost", "later"]
