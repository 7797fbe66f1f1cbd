"""Entities of PROTOCOL.md: actions, schema, features, properties, statistics and file names.

One module for each entity; its docstring names the section. No I/O, no Arrow.
"""

__all__: list[str] = []
