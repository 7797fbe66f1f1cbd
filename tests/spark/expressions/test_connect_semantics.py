"""What row operations refuse with Spark Connect, where only the kernel evaluates. No server."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from bayou.errors import PredicateError
from bayou.protocol.schema import (
    DATE,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    StructField,
    StructType,
)
from bayou.spark.commands.merge_request import MergeRequest, RequestedClause
from bayou.spark.expressions.expressions import RowExpression
from bayou.spark.expressions.kernel_eligibility import KernelExpressions
from bayou.spark.target_table import TargetTable


class ClientSession:
    """What row operations read of a session of Spark Connect: its settings."""

    def __init__(self, zone="UTC", ansi="true"):
        settings = {"spark.sql.session.timeZone": zone, "spark.sql.ansi.enabled": ansi}
        self.conf = SimpleNamespace(get=lambda key, default=None: settings.get(key, default))


TIMES = StructType(
    (
        StructField(name="id", data_type=LONG),
        StructField(name="ts", data_type=TIMESTAMP),
        StructField(name="made", data_type=TIMESTAMP),
        StructField(name="ntz", data_type=TIMESTAMP_NTZ),
        StructField(name="da", data_type=DATE),
        StructField(name="s", data_type=STRING),
    )
)


def client_expressions(**settings):
    return KernelExpressions(TargetTable(spark=ClientSession(**settings), location="/t"), TIMES)


@pytest.mark.parametrize(
    ("condition", "same"),
    [
        ("ts < '2024-01-01 06:00:00'", False),
        ("ts < TIMESTAMP'2024-01-01 06:00:00'", False),
        ("NOT (id = 3 OR ts IN (TIMESTAMP'2024-01-01'))", False),
        ("ts > da", False),
        ("ts = ntz", False),
        ("hour(ts) = 3", False),
        ("CAST(s AS TIMESTAMP) IS NULL", False),
        ("ts < TIMESTAMP'2024-01-01 06:00:00+05:30'", True),
        ("ts < '2024-01-01 06:00:00Z' AND da = DATE'2024-01-01'", True),
        ("ts < made AND upper(s) = 'A'", True),
        ("ts IS NULL OR id = 2024", True),
        ("da < '2024-01-01'", True),
    ],
)
def test_a_client_refuses_conditions_in_another_zone(condition, same):
    client_expressions().predicate(RowExpression(condition))
    expressions = client_expressions(zone="Asia/Kolkata")
    if same:
        expressions.predicate(RowExpression(condition))
    else:
        with pytest.raises(PredicateError, match="time zone Asia/Kolkata"):
            expressions.predicate(RowExpression(condition))


@pytest.mark.parametrize(
    ("value", "same"),
    [
        ("made", True),
        ("NULL", True),
        ("TIMESTAMP'2024-01-01 06:00:00Z'", True),
        ("TIMESTAMP'2024-01-01 06:00:00'", False),
        ("'2024-01-01 06:00:00Z'", False),
        ("da", False),
        ("ntz", False),
        ("coalesce(ts, made)", False),
    ],
)
def test_a_client_refuses_values_that_are_cast_in_another_zone(value, same):
    client_expressions().value("ts", RowExpression(value))
    expressions = client_expressions(zone="Asia/Kolkata")
    if same:
        expressions.value("ts", RowExpression(value))
    else:
        with pytest.raises(PredicateError, match="time zone Asia/Kolkata"):
            expressions.value("ts", RowExpression(value))


@pytest.mark.parametrize(
    ("column", "value", "same"),
    [
        ("da", "ts", False),
        ("s", "ts", False),
        ("`s`", "TIMESTAMP'2024-01-01 06:00:00Z'", False),
        ("`ts`", "'2024-01-01 06:00:00Z'", False),
        ("`ts`", "made", True),
        ("s", "upper(s)", True),
        ("da", "da", True),
    ],
)
def test_a_client_refuses_timestamps_that_are_cast_in_another_zone(column, value, same):
    client_expressions().value(column, RowExpression(value))
    expressions = client_expressions(zone="Asia/Kolkata")
    if same:
        expressions.value(column, RowExpression(value))
    else:
        with pytest.raises(PredicateError, match="time zone Asia/Kolkata"):
            expressions.value(column, RowExpression(value))


def test_a_client_refuses_what_depends_on_ansi_mode():
    expressions = client_expressions(ansi="false")
    expressions.predicate(RowExpression("id > 3 AND s = 'a'"))
    for condition in ("CAST(s AS INT) IS NULL", "id + 1 = 3", "s <> 5"):
        with pytest.raises(PredicateError, match="ANSI mode, which is off"):
            expressions.predicate(RowExpression(condition))


def test_a_client_refuses_merges_in_another_zone():
    source = StructType(
        (StructField(name="id", data_type=LONG), StructField(name="ts", data_type=STRING))
    )
    on = RowExpression("t.id = s.id")
    early = RowExpression("t.ts < TIMESTAMP'2024-01-01 06:00:00'")
    later = RowExpression("t.ts < t.made")

    def refused(source, *clauses, on=on):
        request = MergeRequest(on=on, clauses=clauses, target_alias="t", source_alias="s")
        request.check_client_evaluates(ClientSession(), TIMES, source)
        try:
            request.check_client_evaluates(ClientSession(zone="Asia/Kolkata"), TIMES, source)
        except PredicateError as error:
            return "time zone Asia/Kolkata" in str(error)
        return False

    def updates(**values):
        set_values = {name: RowExpression(value) for name, value in values.items()} or None
        return RequestedClause(kind="MATCHED", action="update", values=set_values)

    deletes = RequestedClause(kind="MATCHED", action="delete")
    assert refused(source, deletes, on=early)
    assert refused(source, replace(deletes, condition=early))
    assert refused(source, updates(ts="s.ts"))
    assert refused(source, updates())
    assert not refused(source, deletes)
    assert not refused(TIMES, updates(ts="s.ts"), replace(deletes, condition=later))
    assert not refused(TIMES, updates())
