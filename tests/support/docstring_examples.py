"""The examples in docstrings, as programs."""

from __future__ import annotations

import re

import pyarrow as pa

import bayou
from support.page_blocks import blocks_of

__all__ = ["program_of", "setup_of", "write_orders"]


def program_of(docstring: str) -> str:
    """Return the lines of the section `Examples`; empty if there is none."""
    section = docstring.partition("Examples:\n")[2]
    return "\n".join(re.findall(r"^ +(?:>>>|\.\.\.) ?(.*)$", section, re.MULTILINE))


def setup_of(page: str) -> str:
    """Return the first block of a page of the reference, which defines the examples' variables."""
    return blocks_of(page)[0].text


def write_orders(path: str) -> None:
    """Write the table that the examples refer to."""
    feed = {"delta.enableChangeDataFeed": "true"}
    orders = pa.table({"id": [1, 2, 3], "price": [9.0, 12.0, 30.0], "country": ["NZ", "AU", "NZ"]})
    bayou.write(path, orders, partition_by="country", configuration=feed)
    bayou.write(path, orders)
