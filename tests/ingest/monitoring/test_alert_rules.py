"""Alert rules as Prometheus evaluates them (`promtool test rules`), over series of hours."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest

from servers.folders import promtool_folder

RULES = Path(__file__).resolve().parents[3] / "deploy" / "prometheus" / "alerts.yaml"
PROMTOOL = promtool_folder() / "promtool"
HOUR = 60

pytestmark = pytest.mark.server  # tools/fetch_servers.py fetches promtool, too


def rises(rate, minutes):
    """A counter from 0, by so much a minute."""
    return [rate * minute for minute in range(minutes)]


def check(series, *told):
    """Evaluate the rules over series of topic `a`, with a value a minute.

    Args:
        told: an alert, a minute, and whether it fires then.
    """
    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {
                        "series": name if "{" in name else f'{name}{{topic="a"}}',
                        "values": " ".join("_" if v is None else f"{v:g}" for v in values),
                    }
                    for name, values in series.items()
                ],
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})'
                        " or vector(0)",
                        "eval_time": f"{minute}m",
                        "exp_samples": [{"labels": "{}", "value": int(fires)}],
                    }
                    for alert, minute, fires in told
                ],
            }
        ],
    }
    ended = subprocess.run(
        [str(PROMTOOL), "test", "rules", "/dev/stdin"],
        input=json.dumps(test),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def waves(minutes, *, growth=0.0, at=0.0):
    """Lag of a topic whose batches are made every minute, or nearly."""
    chance = random.Random(13)
    return [at + growth * minute + chance.uniform(100, 150_000) for minute in range(minutes)]


def test_lag_that_goes_up_and_down_with_its_batches_does_not_grow():
    minutes = range(2 * HOUR, 24 * HOUR, 3)
    lag = {"bayou_lag_records": waves(24 * HOUR)}
    check(lag, *(("BayouLagGrows", minute, False) for minute in minutes))


def test_a_large_load_that_is_taken_in_is_no_growing_lag():
    load = [max(0, 10_000_000 - 50_000 * minute) for minute in range(3 * HOUR)]
    lag = {"bayou_lag_records": [*waves(3 * HOUR), *load]}
    check(lag, *(("BayouLagGrows", minute, False) for minute in range(3 * HOUR, 6 * HOUR, 5)))


def test_lag_that_grows_is_told_and_goes_on_being_told():
    lag = {"bayou_lag_records": [*waves(2 * HOUR), *waves(12 * HOUR, growth=4_000)]}
    later = (("BayouLagGrows", minute, True) for minute in range(4 * HOUR, 14 * HOUR, 31))
    check(lag, ("BayouLagGrows", 2 * HOUR + 10, False), *later)


@pytest.mark.parametrize("failed", [False, True])
def test_a_topic_that_failed_has_an_alert_of_its_own_and_no_other_about_its_lag(failed):
    minutes = 5 * HOUR
    check(
        {
            "bayou_lag_records": [1_000 * m for m in range(minutes)],
            "bayou_last_commit_timestamp_seconds": [60] * minutes,
            "bayou_topic_failed": [failed] * minutes,
        },
        ("BayouTopicFailed", 4 * HOUR, failed),
        ("BayouLagGrows", 4 * HOUR, not failed),
        ("BayouNoCommits", 4 * HOUR, not failed),
    )


def test_records_that_wait_for_half_an_hour_without_a_commit_are_told():
    minutes = 2 * HOUR
    waits = {"bayou_lag_records": [10] * minutes}
    check(waits, ("BayouNoCommits", 30, False), ("BayouNoCommits", HOUR, True))
    commits = {"bayou_last_commit_timestamp_seconds": [60 * m for m in range(minutes)]}
    check({**waits, **commits}, ("BayouNoCommits", HOUR, False))


@pytest.mark.parametrize(
    ("misses", "fast", "slow"),
    [
        (0.0, False, False),
        (0.01, False, False),  # just what the objective allows
        (0.07, False, True),
        (0.2, True, True),
    ],
)
def test_the_error_budget_burns_by_the_share_of_looks_that_miss(misses, fast, slow):
    minutes = 8 * HOUR
    check(
        {
            "bayou_freshness_checks_total": rises(6, minutes),
            "bayou_freshness_misses_total": rises(6 * misses, minutes),
        },
        ("BayouFreshnessBurnsFast", 7 * HOUR, fast),
        ("BayouFreshnessBurnsSlowly", 7 * HOUR, slow),
    )


def test_a_bad_hour_that_is_over_does_not_page():
    bad, good = 2 * HOUR, 2 * HOUR
    check(
        {
            "bayou_freshness_checks_total": rises(6, bad + good),
            "bayou_freshness_misses_total": [*rises(6, bad), *([6 * (bad - 1)] * good)],
        },
        ("BayouFreshnessBurnsFast", bad - 1, True),
        ("BayouFreshnessBurnsFast", bad + 10, False),
    )


def test_records_that_were_lost_before_the_first_scrape_are_told_for_an_hour():
    check(
        {"bayou_lost_offsets_total": [None] * 10 + [500] * 4 * HOUR},
        ("BayouRecordsLost", 9, False),
        ("BayouRecordsLost", 30, True),
        ("BayouRecordsLost", 3 * HOUR, False),
    )


@pytest.mark.parametrize(
    ("series", "down"), [("other", True), ('up{job="bayou"}', False), ('up{job="no"}', True)]
)
def test_a_pipeline_that_is_not_there_is_down(series, down):
    check({series: [1] * HOUR}, ("BayouDown", 10, down))


@pytest.mark.parametrize(
    ("letters", "rows", "deleted", "superseded", "filtered", "few", "many"),
    [
        (0, 100, 0, 0, 0, False, False),
        (1, 100, 0, 0, 0, True, False),
        (10, 100, 0, 0, 0, True, True),
        (1, 0, 50, 50, 0, True, False),  # an upsert of which most records delete or come late
        (10, 100, 0, 0, 900, True, False),
    ],
)
def test_dead_letters_are_told_by_number_and_by_share(
    letters, rows, deleted, superseded, filtered, few, many
):
    minutes = 2 * HOUR
    check(
        {
            "bayou_rows_total": rises(rows, minutes),
            "bayou_dead_letters_total": rises(letters, minutes),
            "bayou_deleted_rows_total": rises(deleted, minutes),
            "bayou_superseded_total": rises(superseded, minutes),
            "bayou_filtered_total": rises(filtered, minutes),
        },
        ("BayouDeadLetters", HOUR, few),
        ("BayouManyDeadLetters", HOUR, many),
    )


@pytest.mark.parametrize(
    ("files", "small", "size", "told"),
    [
        (900, 900, 900, False),
        (2_000, 1_500, 2_000, True),
        (2_000, 900, 2_000, False),
        (30_000, None, 30_000 << 20, True),  # not counted: their mean is a megabyte
    ],
)
def test_small_files_are_told_whether_they_are_counted_or_not(files, small, size, told):
    minutes = 2 * HOUR
    series = {"files": files, "small_files": small, "bytes": size}
    check(
        {f"bayou_table_{name}": [value] * minutes for name, value in series.items()},
        ("BayouSmallFiles", 90, told),
    )


def test_maintenance_and_looks_that_fail_are_told_once_they_keep_failing():
    check(
        {
            'bayou_maintenance_ok{topic="a",task="vacuum"}': [0] * 2 * HOUR,
            "bayou_watch_ok": [0] * 2 * HOUR,
        },
        ("BayouMaintenanceFails", 50, False),
        ("BayouMaintenanceFails", 70, True),
        ("BayouWatchFails", 5, False),
        ("BayouWatchFails", 15, True),
    )
