"""The first engine of a process selects pyarrow's memory pool."""

from __future__ import annotations

import os
import subprocess
import sys

import pyarrow as pa
import pytest

pytestmark = [pytest.mark.process]

PROGRAM = """
import pyarrow as pa
{before}
from bayou.engines.arrow import ArrowEngine
ArrowEngine()
print(pa.default_memory_pool().backend_name)
"""
USUAL = "jemalloc" if "jemalloc" in pa.supported_memory_backends() else "mimalloc"


@pytest.mark.parametrize(
    ("before", "variable", "pool"),
    [
        ("", None, USUAL),
        ("", "mimalloc", "mimalloc"),
        ("", "system", "system"),
        ("pa.set_memory_pool(pa.system_memory_pool())", None, "system"),
    ],
    ids=str,
)
def test_jemalloc_is_used_unless_another_pool_was_chosen(
    before: str, variable: str | None, pool: str
) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "ARROW_DEFAULT_MEMORY_POOL"}
    if variable is not None:
        environment["ARROW_DEFAULT_MEMORY_POOL"] = variable
    printed = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(before=before)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    assert printed.strip() == pool


def test_a_later_choice_of_the_program_is_kept() -> None:
    program = PROGRAM.format(before="") + "pa.set_memory_pool(pa.system_memory_pool())\n"
    program += "ArrowEngine()\nprint(pa.default_memory_pool().backend_name)"
    environment = {k: v for k, v in os.environ.items() if k != "ARROW_DEFAULT_MEMORY_POOL"}
    printed = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    assert printed.split() == [USUAL, "system"]
