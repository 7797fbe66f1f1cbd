"""Files for Prometheus, Grafana, systemd, Docker and Kubernetes say what is there."""

from __future__ import annotations

import configparser
import json
import re
from importlib.resources import files
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from bayou.ingest.config import load_configuration
from bayou.ingest.monitoring import watch
from bayou.ingest.monitoring.metrics import METRIC_NAMES

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy"
RUNBOOK_PAGE = files("bayou.ingest.monitoring").joinpath("runbook.html").read_text()
METRIC = re.compile(r"\bbayou_\w+")
YAML_FILE = YAML(typ="safe", pure=True)


def alerts():
    (group,) = YAML_FILE.load(DEPLOY / "prometheus" / "alerts.yaml")["groups"]
    return group["rules"]


@pytest.mark.parametrize("file", ["prometheus/alerts.yaml", "grafana/bayou.json"])
def test_queries_name_metrics_that_there_are(file):
    used = set(METRIC.findall((DEPLOY / file).read_text()))
    assert used
    assert used <= METRIC_NAMES


def test_every_alert_has_its_section_in_the_runbook():
    runbook = (ROOT / "docs" / "operations" / "runbook.md").read_text()
    headings = set(re.findall(r"^## (.+)$", runbook, re.MULTILINE))
    for alert in alerts():
        assert alert["alert"] in headings
        anchor = alert["alert"].lower()
        assert f"/runbook#{anchor}" in alert["annotations"]["runbook_url"]
        assert f'id="{anchor}"' in RUNBOOK_PAGE
        assert alert["labels"]["severity"] in ("page", "ticket")


def test_tables_whose_small_files_are_not_counted_have_an_alert_by_their_mean():
    (rule,) = (a["expr"] for a in alerts() if a["alert"] == "BayouSmallFiles")
    _, _, uncounted = rule.partition("\nor\n")
    assert f"bayou_table_files > {watch._MAX_COUNTED_FILES} " in uncounted
    assert f"bayou_table_bytes / bayou_table_files < {watch._SMALL_FILE})" in uncounted
    assert "bayou_table_small_files" not in uncounted


def test_half_an_hour_without_a_commit_does_not_begin_with_the_process():
    (rule,) = (a["expr"] for a in alerts() if a["alert"] == "BayouNoCommits")
    assert "bayou_lag_records offset 30m > 0" in rule
    assert "max_over_time(bayou_last_commit_timestamp_seconds[30m])" in rule


def test_every_panel_is_described_and_topics_have_one_color():
    panels = json.loads((DEPLOY / "grafana" / "bayou.json").read_text())["panels"]
    assert all(panel["description"].endswith(".") for panel in panels)
    for panel in panels:
        if panel["type"] == "timeseries":
            color = panel["fieldConfig"]["defaults"]["color"]
            assert color == {"mode": "palette-classic-by-name"}


def test_panels_have_numbers_of_their_own_and_do_not_overlap():
    panels = json.loads((DEPLOY / "grafana" / "bayou.json").read_text())["panels"]
    assert len({p["id"] for p in panels}) == len(panels)
    cells = [
        (x, y)
        for p in panels
        for x in range(p["gridPos"]["x"], p["gridPos"]["x"] + p["gridPos"]["w"])
        for y in range(p["gridPos"]["y"], p["gridPos"]["y"] + p["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_the_unit_stops_the_command_alone_and_does_not_retry_a_wrong_file():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(DEPLOY / "systemd" / "bayou.service")
    service = unit["Service"]
    assert service["KillMode"] == "mixed"
    assert service["RestartPreventExitStatus"] == "2"
    assert "ExecStartPre" not in service  # whose exit code prevents no restart
    assert service["ExecStart"].split()[1:2] == ["run"]


def test_kubernetes_runs_a_configuration_that_is_valid_and_probes_what_is_served(tmp_path):
    documents = {d["kind"]: d for d in YAML_FILE.load_all(DEPLOY / "kubernetes" / "bayou.yaml")}
    file = tmp_path / "pipeline.yaml"
    file.write_text(documents["ConfigMap"]["data"]["pipeline.yaml"])
    secrets = {"KAFKA_PASSWORD": "x", "BAYOU_MONITORING_TOKEN": "y"}
    monitoring = load_configuration(file, environment=secrets).connector.monitoring
    spec = documents["Deployment"]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    (port,) = container["ports"]
    assert port["containerPort"] == monitoring.port
    assert documents["Service"]["spec"]["ports"][0]["port"] == monitoring.port
    probes = {container[f"{p}Probe"]["httpGet"]["path"] for p in ("startup", "liveness")}
    assert probes == {"/healthz"}
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert spec["replicas"] == 1
    assert spec["strategy"]["type"] == "Recreate"
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]


def test_kubernetes_grants_the_pod_no_more_than_it_needs():
    documents = {d["kind"]: d for d in YAML_FILE.load_all(DEPLOY / "kubernetes" / "bayou.yaml")}
    pod = documents["Deployment"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    writable = {m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")}
    assert writable == {"/tmp", "/var/lib/bayou"}
    assert container["workingDir"] in writable
    image = (DEPLOY / "docker" / "Dockerfile").read_text()
    assert "BAYOU_STATE_PATH=/var/lib/bayou" in image
    policy = documents["NetworkPolicy"]["spec"]
    assert policy["podSelector"]["matchLabels"] == documents["Service"]["spec"]["selector"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    (port,) = policy["ingress"][0]["ports"]
    assert port["port"] == documents["Service"]["spec"]["ports"][0]["port"]
    assert all(rule["ports"] for rule in policy["egress"])


def test_security_says_what_is_trusted_and_how_to_report():
    text = (ROOT / "SECURITY.md").read_text()
    for part in ("Report it privately", "the log of a table", "the storage", "the configuration"):
        assert part in text
    assert "@" not in text  # no addresses
    pinned = (ROOT / "constraints.txt").read_text()
    assert ("--hash" in pinned) != ("without hashes" in text)


def test_the_image_installs_what_the_command_needs_and_runs_it_without_root():
    lines = (DEPLOY / "docker" / "Dockerfile").read_text().splitlines()
    text = "\n".join(lines)
    assert "--require-hashes -r requirements.txt" in text
    assert "openjdk-17-jre-headless" in text
    assert any(line.startswith("USER ") and line != "USER root" for line in lines)
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY")]
    for source in (name for names in copied for name in names):
        assert (ROOT / source).exists(), source
    assert 'ENTRYPOINT ["tini", "--", "bayou"]' in lines
