"""A Spark session that does the work of several benchmarks, in either environment.

usage: spark_session.py VARIANT

A request names a program, which is a module with a function `work`; the response is what the
function returns. VARIANT is one of `spark_variant`, or a program's own, which starts as `enable`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from spark_variant import PEER, answer, session

MEMORY = "6g"


def main(arguments: Sequence[str]) -> None:
    """Answer requests until the input ends."""
    (variant,) = arguments
    spark = session(variant if variant in {PEER, "source"} else "enable", MEMORY)
    spark.range(1000).selectExpr("sum(id)").collect()

    def work(asked: dict[str, Any]) -> Mapping[str, Any]:
        program = importlib.import_module(asked.pop("program"))
        done: Mapping[str, Any] = program.work(spark, variant, asked)
        return done

    answer(work)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
