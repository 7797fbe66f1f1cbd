"""Engines: implementations of `bayou.kernel.engine` for storage, JSON, Parquet and expressions.

`arrow` is the default engine, `memory` keeps its files in the process. Start at
`selection.for_path`.
"""

from bayou.engines.selection import for_path, from_description

__all__ = ["for_path", "from_description"]
