import pytest

from bayou import spark as bayou_spark
from bayou.spark.hooks import hooks
from bayou.spark.jvm.readers_writers import reader_state

pytestmark = pytest.mark.spark


@pytest.fixture
def asked(spark, monkeypatch):
    """Requests that a handler was asked; it answers with the request for paths that say so."""
    requests = []

    def handler(request):
        requests.append(request)
        target = getattr(request, "paths", None) or (request.path or request.table,)
        return request if "answered" in target[0] else NotImplemented

    # `query_start` is asked beside the others, `query` and `count` have requests without a path.
    for hook in hooks._handlers.keys() - {"query_start", "query", "count"}:
        monkeypatch.setitem(hooks._handlers, hook, [])
        hooks.register(hook, handler)
        hooks.register(hook, handler)
    return requests


def test_a_reader_tells_all_that_was_set_on_it(spark, asked):
    reader = spark.read.format("DELTA").schema("id long").option("versionAsOf", 3)
    reader = reader.options(Filter="id > 1", empty=None)
    request = reader.load("answered", VERSIONASOF=4)
    assert (request.format, request.paths, request.streaming) == ("delta", ("answered",), False)
    assert request.options == {"VERSIONASOF": "4", "Filter": "id > 1"}
    assert request.schema.simpleString() == "struct<id:bigint>"
    assert request.spark is spark
    assert not request.connect
    assert len(asked) == 1  # a handler that is registered twice is asked once


def test_the_path_may_be_an_option(spark, asked):
    request = spark.read.format("delta").option("Path", "answered").load()
    assert (request.paths, request.options, request.schema) == (("answered",), {}, None)
    assert spark.read.load(["answered", "b"], format="delta").paths == ("answered", "b")


def test_a_writer_tells_all_that_was_set_on_it(spark, asked):
    rows = spark.range(1)
    writer = rows.write.format("delta").option("delta.appendOnly", True)
    request = writer.partitionBy("a", "b").save("answered", mode="overwrite", mergeSchema=True)
    assert (request.method, request.format, request.path) == ("save", "delta", "answered")
    assert request.table is None
    assert request.mode == "overwrite"
    assert request.options == {"delta.appendOnly": "true", "mergeSchema": "true"}
    assert request.partition_columns == ("a", "b")
    assert request.clustering_columns is None
    assert request.df is rows
    request = rows.write.format("delta").clusterBy("id").save("answered")
    assert (request.mode, request.clustering_columns) == ("error", ("id",))
    writer = rows.write.bucketBy(4, "id").sortBy("id")
    request = writer.saveAsTable("answered", "delta", "ignore")
    assert (request.method, request.table, request.path) == ("saveAsTable", "answered", None)
    assert request.mode == "ignore"
    assert (request.bucket_columns, request.sort_columns) == (("id",), ("id",))


def test_an_insert_is_asked_for_whatever_the_format(spark, asked):
    request = spark.range(1).write.insertInto("answered", overwrite=True)
    assert (request.method, request.table, request.mode) == ("insertInto", "answered", "overwrite")
    assert request.format == "parquet"


def test_streams_tell_all_that_was_set_on_them(spark, asked):
    reader = spark.readStream.format("delta").option("ignoreDeletes", "true")
    request = reader.load("answered", startingVersion=2)
    assert request.streaming
    assert request.options == {"ignoreDeletes": "true", "startingVersion": "2"}
    rates = spark.readStream.format("rate").load()
    writer = rates.writeStream.queryName("q").option("checkpointLocation", "c")
    request = writer.start("answered", "delta", "complete", ["value"], mergeSchema="true")
    assert (request.method, request.path, request.output_mode) == ("start", "answered", "complete")
    assert request.options["checkpointLocation"] == "c"
    assert request.options["mergeSchema"] == "true"
    assert request.partition_columns == ("value",)
    assert request.df is rates
    request = rates.writeStream.toTable("answered", format="delta")
    assert (request.method, request.table, request.path) == ("toTable", "answered", None)


def test_what_handlers_set_on_a_reader_does_not_stay(spark, monkeypatch, tmp_path):
    path, other = str(tmp_path / "t"), str(tmp_path / "other")
    spark.range(3).write.format("delta").mode("append").save(path)
    spark.range(2).write.parquet(other)
    handed = []

    def handler(request):
        handed.append(request)
        target = request.reader if hasattr(request, "reader") else request.writer
        target.option("fs.s3a.secret.key", "not for others").option("mine", "2")
        return NotImplemented

    for hook in ("load", "stream_load", "stream_start"):
        monkeypatch.setitem(hooks._handlers, hook, [handler])
    reader = spark.read.format("delta").option("mine", "1")
    streamed = spark.readStream.format("delta").option("mine", "1")
    for _ in range(2):
        assert reader.load(path).count() == 3
        frame = streamed.load(path)
        written = frame.writeStream.format("delta").option("mine", "1")
        written = written.option("checkpointLocation", str(tmp_path / "c"))
        written.trigger(availableNow=True)
        for _ in range(2):
            written.start(str(tmp_path / "copy")).awaitTermination()
    assert {request.options["mine"] for request in handed} == {"1"}
    assert all("fs.s3a.secret.key" not in request.options for request in handed)
    assert reader_state(reader).options == {"mine": "1"}
    assert reader.load(other, format="parquet").count() == 2


def test_a_handler_that_declines_leaves_it_to_spark(spark, asked, tmp_path):
    path = str(tmp_path / "t")
    spark.range(3).write.format("delta").mode("append").save(path)
    assert spark.read.format("delta").load(path).count() == 3
    assert [type(r).__name__ for r in asked] == ["WriteRequest", "ReadRequest"]


def test_other_formats_are_left_to_spark(spark, asked, tmp_path):
    path = str(tmp_path / "answered")
    spark.range(3).write.partitionBy().parquet(path)
    spark.range(3).write.save(path, format="parquet", mode="append")
    assert spark.read.load(path, format="parquet").count() == 6
    assert asked == []


def test_hooks_hold_in_new_sessions_and_in_foreach_batch(spark, asked, tmp_path):
    assert spark.newSession().read.format("delta").load("answered").paths == ("answered",)
    folder, seen = str(tmp_path / "in"), []
    spark.range(1).write.parquet(folder)

    def batch(rows, number):
        seen.append(rows.write.format("delta").save("answered").mode)

    stream = spark.readStream.schema("id long").parquet(folder)
    query = stream.writeStream.foreachBatch(batch).trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination()
    assert seen == ["error"]


def test_a_session_that_is_not_enabled_is_left_to_spark(spark, asked, tmp_path):
    session = spark.newSession()
    bayou_spark.disable(session)
    try:
        path = str(tmp_path / "answered")
        session.range(2).write.format("delta").mode("append").save(path)
        assert session.read.format("delta").load(path).count() == 2
        assert asked == []
        assert not hooks.is_enabled(session.newSession())
        assert hooks.is_enabled(spark)
    finally:
        bayou_spark.enable(spark)
    assert hooks.is_enabled(spark.newSession())


def test_hooked_methods_keep_their_names_and_texts(spark):
    for method in (type(spark.read).load, type(spark.range(1).write).saveAsTable):
        assert method.__doc__.strip()
        assert method.__name__ in ("load", "saveAsTable")
