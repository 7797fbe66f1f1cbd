"""Headers that a client of C may send: the name of one is any bytes."""

from __future__ import annotations

import ctypes

import pyarrow as pa
import pytest
from confluent_kafka import cimpl

from bayou.ingest.inspection.kafka_records import kafka_records
from bayou.ingest.offsets import OffsetSpan
from bayou.spark.kafka import EmbeddedBroker
from bayou.spark.kafka.columns import unpack_headers
from bayou.spark.kafka.embedded_broker import ProducedRecord


def produce(servers, topic, value, header):
    """Send a record as librdkafka takes it: Python's producer refuses such names."""
    library = ctypes.CDLL(cimpl.__file__)
    pointer, text, number, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_ssize_t
    for name, result, arguments in (
        ("rd_kafka_conf_new", pointer, []),
        ("rd_kafka_conf_set", number, [pointer, text, text, text, size]),
        ("rd_kafka_new", pointer, [number, pointer, text, size]),
        ("rd_kafka_headers_new", pointer, [size]),
        ("rd_kafka_header_add", number, [pointer, text, size, text, size]),
        ("rd_kafka_flush", number, [pointer, number]),
        ("rd_kafka_destroy", None, [pointer]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    library.rd_kafka_producev.restype = number
    said = ctypes.create_string_buffer(512)
    settings = library.rd_kafka_conf_new()
    library.rd_kafka_conf_set(settings, b"bootstrap.servers", servers.encode(), said, 512)
    client = library.rd_kafka_new(0, settings, said, 512)
    headers = library.rd_kafka_headers_new(1)
    library.rd_kafka_header_add(headers, header, len(header), b"v", 1)
    topic_tag, value_tag, flags_tag, headers_tag, end = (number(tag) for tag in (1, 4, 7, 10, 0))
    sent = library.rd_kafka_producev(
        pointer(client),
        *(topic_tag, text(topic.encode())),
        *(value_tag, text(value), size(len(value))),
        *(flags_tag, number(2)),  # the value is copied
        *(headers_tag, pointer(headers)),
        end,
    )
    flushed = library.rd_kafka_flush(client, 10_000)
    library.rd_kafka_destroy(client)
    assert (sent, flushed) == (0, 0)


@pytest.mark.parametrize(
    ("header", "expected"), [(b"\xff\xfe", None), ("ä".encode(), [("ä", b"v")])]
)
def test_a_record_whose_header_has_no_name_in_utf8_is_read_without_headers(header, expected):
    plain = [ProducedRecord(b"plain", headers=[("name", b"x")])] * 50
    with EmbeddedBroker() as broker:
        broker.create_topic("odd", 1)
        broker.produce("odd", plain)  # what is called often the interpreter calls in a shorter way
        for _ in range(3):
            produce(broker.bootstrap_servers, "odd", b"odd", header)
        broker.produce("odd", plain)
        properties = {"bootstrap.servers": broker.bootstrap_servers}
        read = list(kafka_records(properties, "odd", [(0, OffsetSpan(start=0, end=103))]))
    batch = pa.Table.from_batches(read)
    assert batch.column("value").to_pylist() == [b"plain"] * 50 + [b"odd"] * 3 + [b"plain"] * 50
    found = [headers and unpack_headers(headers) for headers in batch["headers"].to_pylist()]
    assert found == [[("name", b"x")]] * 50 + [expected] * 3 + [[("name", b"x")]] * 50
