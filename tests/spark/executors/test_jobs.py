"""Jobs of an operation are cancelled when it is interrupted."""

import subprocess
import sys

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


DEAD_JVM = """
import os, signal, sys
from bayou.spark import start_session
from bayou.spark.executors.jobs import TaggedJobs

spark = start_session("dead", {"spark.driver.memory": "512m"}, master="local[1]")
jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
print("started", file=sys.stderr)
try:
    with TaggedJobs(spark, "a write").tagged():
        os.kill(jvm, signal.SIGKILL)
        raise KeyboardInterrupt
except KeyboardInterrupt:
    print("interrupted", file=sys.stderr)
os._exit(0)
"""


@pytest.mark.process
def test_an_interruption_is_raised_and_one_sentence_logged_if_the_jvm_has_ended():
    program = [sys.executable, "-c", DEAD_JVM]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    logged = done.stderr.partition("started\n")[2]
    prefix, _, rest = logged.partition("Jobs with the tag bayou-")
    assert prefix in ("", "WARNING:bayou.spark.jvm.jobs:")  # a library configures Python's logging
    assert rest.partition(": ")[2] == (
        "they can't be canceled, because Spark's JVM has ended. Start a new Spark session.\n"
        "interrupted\n"
    )
