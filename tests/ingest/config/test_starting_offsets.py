import datetime as dt

import pytest

from bayou.errors import ConfigurationError
from bayou.ingest.config import load_configuration


def start(tmp_path, yaml):
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        "connector:\n  kafka: {bootstrap-servers: 'b:9092'}\n  topics:\n    events:\n"
        f"      kafka-topic: events\n      starting-offsets: {yaml}\n"
        "      destination: {table-path: lake/events}\n"
    )
    return load_configuration(file, environment={}).topics[0].config.starting_offsets


UTC = dt.datetime(2026, 1, 5, 10, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("yaml", "expected"),
    [
        ("latest", "latest"),
        ("2026-01-05T10:00:00Z", UTC),
        ("'2026-01-05T12:00:00+02:00'", UTC),
        ("'2026-01-05 10:00:00'", UTC),
        ("2026-01-05", dt.datetime(2026, 1, 5, tzinfo=dt.UTC)),
        ("{0: 23, 1: 0}", {0: 23, 1: 0}),
        ("{'0': 23}", {0: 23}),
    ],
)
def test_a_start_is_a_word_a_timestamp_or_offsets(tmp_path, yaml, expected):
    assert start(tmp_path, yaml) == expected


@pytest.mark.parametrize(
    "yaml", ["first", "5", "true", "{}", "{a: 1}", "{0: -1}", "{0: x}", "{0: true}", "[0, 1]"]
)
def test_other_values_are_refused_with_what_to_write(tmp_path, yaml):
    with pytest.raises(ConfigurationError, match=r"starting-offsets.*write .*\{0: 23, 1: 0\}"):
        start(tmp_path, yaml)
