"""Measures queries on small TPC-DS tables with Spark, after `enable`, compared with delta-spark.

usage: tpcds.py [--scale N] [--runs N] [--only QUERY ...] [--peers ENVIRONMENT] [--plot FILE]

The folder `tpcds_queries` has 99 queries. Each answers the business question of the benchmark's
query with the same number, in SQL of our own. Each query runs once: on small tables, most of the
time is query planning and the compilation of generated code.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tpc_suite import Suite, main

_FOLDER = Path(__file__).with_name("tpcds_queries")


def _queries(_: float) -> dict[str, str]:
    return {f"q{n}": (_FOLDER / f"q{n}.sql").read_text(encoding="utf-8") for n in range(1, 100)}


SUITE = Suite(
    name="tpcds",
    title="Questions on TPC-DS",
    tables=(
        "call_center",
        "catalog_page",
        "catalog_returns",
        "catalog_sales",
        "customer",
        "customer_address",
        "customer_demographics",
        "date_dim",
        "household_demographics",
        "income_band",
        "inventory",
        "item",
        "promotion",
        "reason",
        "ship_mode",
        "store",
        "store_returns",
        "store_sales",
        "time_dim",
        "warehouse",
        "web_page",
        "web_returns",
        "web_sales",
        "web_site",
    ),
    queries=_queries,
    scale=0.01,
    warm=False,
    target=0.15,
    target_each=1.05,
)


if __name__ == "__main__":
    main(SUITE, str(__doc__), sys.argv[1:])
