"""The examples are configurations that run."""

from __future__ import annotations

from pathlib import Path

import jsonschema_rs
import pytest
from ruamel.yaml import YAML

from bayou.errors import ConfigurationError
from bayou.ingest.config import PipelineConfig, load_configuration
from bayou.ingest.schemas import topic_schemas

EXAMPLES = Path(__file__).parents[2] / "examples"
ENVIRONMENT = {"KAFKA_BOOTSTRAP_SERVERS": "localhost:9092"}


UPSERTS = EXAMPLES / "plan" / "upsert.yaml"
RUN = sorted(set(EXAMPLES.rglob("*.yaml")) - {UPSERTS})


@pytest.mark.parametrize("file", RUN, ids=lambda f: f.stem)
def test_an_example_is_a_valid_configuration(file):
    configuration = load_configuration(file, environment=ENVIRONMENT)
    assert topic_schemas(configuration).keys() == {t.key for t in configuration.topics}


def test_the_plan_says_which_of_its_keys_have_no_effect_yet():
    configuration = load_configuration(EXAMPLES / "plan" / "append.yaml", environment=ENVIRONMENT)
    assert [n.key.rsplit(".", 1)[-1] for n in configuration.notices if "user-events" in n.key] == [
        "enable-optimize",
        "optimize-interval",
        "enable-compaction",
        "compaction-interval",
        "enable-vacuum",
        "vacuum-retention-hours",
    ]
    assert configuration.topics[0].config.destination.delta_config.checkpoint_interval == 10


def test_upserts_are_refused_topic_by_topic_and_key_by_key():
    configuration = load_configuration(UPSERTS, environment=ENVIRONMENT)
    with pytest.raises(ConfigurationError) as caught:
        configuration.check_supported()
    lines = caught.value.message.splitlines()
    assert [line.split(": ")[1].split(".", 2)[2] for line in lines] == [
        f"{topic}.destination.{key}"
        for topic in ("user-events", "order-events", "custom-topic")
        for key in ("delta-config.enable-upsert", "key-columns")
    ]
    assert len(configuration.notices) == 6  # of its optimize, compaction and vacuum


def test_the_schema_for_editors_takes_the_examples():
    validator = jsonschema_rs.validator_for(PipelineConfig.model_json_schema())
    for file in EXAMPLES.rglob("*.yaml"):
        assert validator.is_valid(YAML(typ="safe").load(file.read_text())), file
    assert not validator.is_valid({"connector": {"topics": {"a": {"kafka-topc": "x"}}}})


def test_an_event_time_that_is_no_time_is_refused_before_anything_runs():
    setting = "connector.topics.user-events.event-time=user_id"
    configuration = load_configuration(
        EXAMPLES / "plan" / "append.yaml", settings=[setting], environment=ENVIRONMENT
    )
    with pytest.raises(ConfigurationError, match="'user_id' is a string"):
        topic_schemas(configuration)
