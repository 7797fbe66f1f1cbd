"""The HTTP side: what is served, to whom."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bayou.errors import ConfigurationError, PrerequisiteError
from bayou.ingest.config import load_configuration
from bayou.ingest.events import BatchReport, MaintenanceReport, TopicStarted
from bayou.ingest.monitoring import monitored, server
from bayou.ingest.monitoring.metrics import METRIC_NAMES
from bayou.ingest.monitoring.status import RoutedTable
from bayou.ingest.monitoring.watch import Watch
from bayou.ingest.offsets import OffsetSpan
from support.waiting import wait_until

TOKEN = "correct-horse"


def configuration(tmp_path, monitoring="{port: 0}"):
    file = tmp_path / "p.yaml"
    file.write_text(
        "connector:\n  kafka: {bootstrap-servers: 'h:1'}\n"
        f"  monitoring: {monitoring}\n  topics:\n"
        "    a: {kafka-topic: a, destination: {table-path: a}, slo: {freshness-seconds: 30}}\n"
    )
    return load_configuration(file, environment={})


def get(url, path, host=None, **headers):
    address = url.removeprefix("http://").rstrip("/")
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.request("GET", path, headers={"Host": host or address, **headers})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body, answer.headers


@pytest.fixture(autouse=True)
def _nobody_asks_the_brokers(monkeypatch):
    # There are none; a look would go on in its thread when the next tests run.
    monkeypatch.setattr(Watch, "look", lambda _: None)


@pytest.fixture
def monitor(tmp_path):
    with monitored(configuration(tmp_path)) as found:
        found.store.topic_started(
            TopicStarted(
                topic="a",
                kafka_topic="a",
                table_path="a",
                partitions=2,
                waiting=0,
                positions={0: 0, 1: 0},
            )
        )
        found.store.set_end_offsets("a", {0: 7, 1: 0}, {})
        found.store.batch_committed(
            BatchReport(
                topic="a",
                spans={0: OffsetSpan(start=0, end=5)},
                rows=5,
                version=3,
                seconds=0.3,
                commit_seconds=0.1,
            )
        )
        found.store.set_table(
            "a",
            version=3,
            files=4,
            small_files=2,
            table_bytes=900,
            iceberg_lag=0,
            letters=1,
            reasons={"not valid JSON": 1},
            routed_tables=[
                RoutedTable(table="t_b", table_path="lake/t_b", version=4, files=3, bytes=70),
                RoutedTable(table="t_a", table_path="lake/t_a", version=0, files=1, bytes=20),
            ],
        )
        yield found


def test_the_runbook_is_served_with_a_section_for_each_error(monitor):
    status, body, headers = get(monitor.url, "/runbook")
    assert status == 200
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    for section in ("pipelineerror", "bayoutopicfailed", "bayoufreshnessburnsfast"):
        assert f'<h2 id="{section}">' in body
        assert body.count(f'id="{section}"') == 1
    targets = set(re.findall(r'href="#([^"]*)"', body))
    assert targets <= set(re.findall(r'id="([^"]*)"', body))


def test_the_page_is_one_document_that_asks_nobody_else(monitor):
    status, body, headers = get(monitor.url, "/")
    assert status == 200
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "<title>Bayou" in body
    outside = body.replace("http://www.w3.org/2000/svg", "")
    assert "http:" not in outside
    assert "https:" not in outside


def test_the_status_is_json(monitor):
    _, body, _ = get(monitor.url, "/status.json")
    status = json.loads(body)
    (topic,) = status["topics"]
    assert (topic["waiting"], topic["rows"], topic["version"], topic["late"]) == (2, 5, 3, False)
    assert topic["lag"] == {"0": 2, "1": 0}
    assert [t["table"] for t in topic["routed_tables"]] == ["t_a", "t_b"]
    assert topic["routed_tables"][1] == {
        "table": "t_b",
        "table_path": "lake/t_b",
        "version": 4,
        "files": 3,
        "bytes": 70,
    }
    assert status["ready"] is True


def test_metrics_are_what_prometheus_reads_and_no_other_names(monitor):
    monitor.store.maintenance_finished(
        MaintenanceReport(
            topic="a", task="optimize", table_path="a", started=5.0, seconds=1.0, result="done"
        )
    )
    _, body, _ = get(monitor.url, "/metrics")
    samples = {
        (s.name, s.labels.get("topic"), s.labels.get("partition")): s.value
        for family in text_string_to_metric_families(body)
        for s in family.samples
        if not s.name.endswith("_bucket")
    }
    assert samples["bayou_rows_total", "a", None] == 5
    assert samples["bayou_lag_records", "a", None] == 2
    assert samples["bayou_partition_lag_records", "a", "0"] == 2
    assert samples["bayou_table_small_files", "a", None] == 2
    assert samples["bayou_batch_seconds_count", "a", None] == 1
    assert samples["bayou_commit_seconds_sum", "a", None] == 0.1
    assert samples["bayou_maintenance_ok", "a", None] == 1
    assert samples["bayou_maintenance_timestamp_seconds", "a", None] == 6
    buckets = {"bayou_batch_seconds_bucket", "bayou_commit_seconds_bucket"}
    assert {name for name, _, _ in samples} | buckets == METRIC_NAMES


def test_health_and_readiness_are_status_codes(monitor):
    assert get(monitor.url, "/healthz")[0] == 200
    assert get(monitor.url, "/readyz")[0] == 200


def test_a_topic_that_has_not_started_is_not_ready(tmp_path):
    with monitored(configuration(tmp_path)) as found:
        status, body, _ = get(found.url, "/readyz")
        assert status == 503
        assert json.loads(body)["topics"] == {"a": "waiting"}


def test_what_is_not_there_is_404_and_other_methods_are_refused(monitor):
    assert get(monitor.url, "/etc/passwd")[0] == 404
    address = monitor.url.removeprefix("http://").rstrip("/")
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.request("POST", "/")
    assert connection.getresponse().status == 501
    connection.close()


def test_without_a_token_another_host_name_is_refused(monitor):
    assert get(monitor.url, "/status.json", host="evil.example:80")[0] == 403
    assert get(monitor.url, "/status.json", host="localhost")[0] == 200


def test_a_host_that_is_none_is_refused(monitor):
    assert get(monitor.url, "/status.json", host="[::1")[0] == 403


def test_a_token_may_have_any_letters(tmp_path):
    token = "tökén"
    with monitored(configuration(tmp_path, f"{{port: 0, token: {token}}}")) as found:
        shown = {"Authorization": f"Bearer {token}".encode()}
        assert get(found.url, "/status.json", **shown)[0] == 200
        assert get(found.url, "/status.json?token=t%C3%B6k%C3%A9n")[0] == 200
        assert get(found.url, "/status.json", Authorization="Bearer token")[0] == 401


def test_with_a_token_only_those_who_show_it_read(tmp_path):
    with monitored(configuration(tmp_path, f"{{port: 0, token: {TOKEN}}}")) as found:
        for path in ("/", "/status.json", "/metrics"):
            assert get(found.url, path)[0] == 401
            assert get(found.url, path, Authorization="Bearer wrong")[0] == 401
            assert get(found.url, path, Authorization=f"Bearer {TOKEN}")[0] == 200
            assert get(found.url, f"{path}?token={TOKEN}")[0] == 200
        assert get(found.url, "/healthz")[0] == 200
        for path in ("/", "/status.json", "/metrics"):
            assert TOKEN not in get(found.url, path, Authorization=f"Bearer {TOKEN}")[1]


def test_an_address_that_others_reach_needs_a_token(tmp_path):
    with pytest.raises(ConfigurationError, match=r"connector\.monitoring: host 0\.0\.0\.0 can be"):
        configuration(tmp_path, "{host: 0.0.0.0}")
    configuration(tmp_path, "{host: 0.0.0.0, enabled: false}")
    configuration(tmp_path, f"{{host: 0.0.0.0, token: {TOKEN}}}")
    with pytest.raises(ConfigurationError, match="token is empty"):  # as of an unset variable
        configuration(tmp_path, "{host: 0.0.0.0, token: '${TOKEN:-}'}")


def test_a_port_that_is_taken_is_said(tmp_path, monitor):
    port = monitor.url.rstrip("/").rpartition(":")[2]
    with (
        pytest.raises(PrerequisiteError, match="Set another port"),
        monitored(configuration(tmp_path, f"{{port: {port}}}")),
    ):
        pass


def test_no_port_is_opened_unless_asked_for(tmp_path):
    with monitored(configuration(tmp_path, "{enabled: false}")) as found:
        assert found.url is None


def test_probes_name_no_topic_to_a_reader_without_the_token(tmp_path):
    with monitored(configuration(tmp_path, f"{{port: 0, token: {TOKEN}}}")) as monitor:
        for path in ("/healthz", "/readyz"):
            _, body, _ = get(monitor.url, path)
            assert json.loads(body).keys() == {"ok"}
            _, body, _ = get(monitor.url, path, Authorization="Bearer wrong")
            assert json.loads(body).keys() == {"ok"}
            _, body, _ = get(monitor.url, path, Authorization=f"Bearer {TOKEN}")
            assert json.loads(body)["topics"].keys() == {"a"}


def readers():
    return [t for t in threading.enumerate() if t.name == "bayou-status-reader"]


@pytest.mark.parametrize("said", [b"", b"GET /status.json HTTP/1.1\r\n"])
def test_idle_connections_take_a_bounded_number_of_threads_and_keep_nobody_out(monitor, said):
    address = monitor.url.removeprefix("http://").rstrip("/").rsplit(":", 1)
    with contextlib.ExitStack() as stack:
        for _ in range(3 * server.MOST_CONNECTIONS):
            idle = stack.enter_context(socket.create_connection((address[0], int(address[1]))))
            idle.sendall(said)
            wait_until(lambda: len(readers()) <= server.MOST_CONNECTIONS)
        for _ in range(3):
            assert get(monitor.url, "/healthz")[0] == 200
            assert get(monitor.url, "/status.json")[0] == 200
    wait_until(lambda: not readers(), what="threads of closed connections end")


def test_a_connection_that_says_nothing_is_closed(monitor, monkeypatch):
    monkeypatch.setattr(server._Handler, "timeout", 0.05)
    address = monitor.url.removeprefix("http://").rstrip("/").rsplit(":", 1)
    with socket.create_connection((address[0], int(address[1])), timeout=30) as idle:
        assert idle.recv(1) == b""


def test_a_path_that_is_no_url_is_refused(monitor):
    assert get(monitor.url, "http://[/")[0] == 400
