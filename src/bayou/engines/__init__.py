"""Engines: implementations of `bayou.kernel.engine` for storage, JSON, Parquet and expressions.

`arrow` is the default engine; `memory` stores files in the process's memory. Start at
`selection.for_path`.
"""

from bayou.engines.selection import for_path, from_description

__all__ = ["for_path", "from_description"]
