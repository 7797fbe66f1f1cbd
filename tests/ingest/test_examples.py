"""The examples are configurations that run."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayou.errors import ConfigurationError
from bayou.ingest.config import load_configuration
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


def test_upserts_are_refused_topic_by_topic():
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(UPSERTS, environment=ENVIRONMENT)
    lines = caught.value.message.splitlines()
    for line, topic in zip(lines, ("user-events", "order-events", "custom-topic"), strict=True):
        assert f"{topic}.destination.delta-config.enable-upsert" in line
