"""Settings: their names, and where they may stand."""

from __future__ import annotations

import pytest

from bayou.errors import ArgumentError
from bayou.spark.session.settings import (
    MAX_INITIAL_SNAPSHOT_FILE_COUNT,
    REPLAY_NUM_PARTITIONS,
    SETTINGS,
    conf_as_options,
)


class Session:
    """What of a session settings look at."""

    def __init__(self, **conf: str) -> None:
        self.conf = {name.replace("__", "."): value for name, value in conf.items()}


def test_an_option_comes_before_conf_and_conf_before_the_environment(monkeypatch):
    spark = Session(bayou__replay__numPartitions="2")
    monkeypatch.setenv("BAYOU_REPLAY_NUMPARTITIONS", "3")
    options = {"BAYOU.replay.NUMPARTITIONS": "1"}
    assert REPLAY_NUM_PARTITIONS.integer(options, spark) == 1
    assert REPLAY_NUM_PARTITIONS.integer(None, spark) == 2
    assert REPLAY_NUM_PARTITIONS.integer() == 3
    monkeypatch.delenv("BAYOU_REPLAY_NUMPARTITIONS")
    assert REPLAY_NUM_PARTITIONS.integer() is None


@pytest.mark.parametrize(
    "name",
    [
        "bayou.replay.numPartitions",
        "spark.bayou.replay.numPartitions",
        "spark.databricks.delta.v2.distributedLogReplay.numPartitions",
    ],
)
def test_names_of_delta_and_ours_mean_the_same(name):
    spark = Session(**{name.replace(".", "__"): "9"})
    assert REPLAY_NUM_PARTITIONS.integer(spark=spark) == 9
    assert conf_as_options(spark, {}) == {"bayou.replay.numPartitions": "9"}
    assert conf_as_options(spark, {"bayou.replay.numpartitions": "4"}) == {}


@pytest.mark.parametrize("value", ["0", "many", "-1", "1.5"])
def test_a_number_that_makes_no_sense_is_refused_by_name(value):
    with pytest.raises(ArgumentError, match=r"bayou\.replay\.numPartitions") as caught:
        REPLAY_NUM_PARTITIONS.integer({"bayou.replay.numPartitions": value})
    assert caught.value.argument == "bayou.replay.numPartitions"


def test_no_file_may_be_a_limit():
    name = MAX_INITIAL_SNAPSHOT_FILE_COUNT.aliases[0]
    assert MAX_INITIAL_SNAPSHOT_FILE_COUNT.integer({name: " 0 "}) == 0


def test_no_two_settings_share_a_name():
    names = [name.lower() for setting in SETTINGS for name in setting.names]
    assert len(names) == len(set(names))
    assert all(setting.meaning.endswith(".") for setting in SETTINGS)
