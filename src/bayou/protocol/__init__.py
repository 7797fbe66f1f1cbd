"""Entities of PROTOCOL.md: actions, schema, features, properties, statistics and file names.

Each module contains one entity; the module's docstring names the section of PROTOCOL.md. The
package does no I/O and doesn't use Arrow.
"""

__all__: list[str] = []
