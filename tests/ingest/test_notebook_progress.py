"""Progress bars of a pipeline in a notebook."""

from bayou.errors import StorageError
from bayou.ingest import NotebookProgress
from bayou.ingest.events import AttemptFailed, BatchReport, TopicStarted, TopicSummary
from bayou.ingest.offsets import OffsetSpan


def test_a_bar_shows_how_far_a_topic_is():
    progress = NotebookProgress()
    progress.topic_started(
        TopicStarted(topic="a<b", kafka_topic="a", table_path="/t", partitions=1, waiting=40)
    )
    span = OffsetSpan(start=0, end=10)
    progress.batch_committed(BatchReport(topic="a<b", spans={0: span}, rows=10, version=0))
    shown = progress._repr_html_()
    assert "a&lt;b" in shown
    assert '<progress value="0.250" max="1">' in shown
    assert "10 of 40 records, 1 commits" in shown


def test_failures_and_the_end_of_a_topic_are_shown():
    progress = NotebookProgress()
    error = StorageError("the <disk> is full", path="/t")
    progress.attempt_failed(
        AttemptFailed(topic="a", what="batch", retry=1, of=3, pause=1.0, error=error)
    )
    assert "retry 1 of 3: the &lt;disk&gt; is full" in progress._repr_html_()
    progress.topic_finished(TopicSummary(topic="a", table_path="/t", seconds=2.0))
    assert '<progress value="1.000" max="1">' in progress._repr_html_()
    assert "finished in 2.0 s" in progress._repr_html_()
