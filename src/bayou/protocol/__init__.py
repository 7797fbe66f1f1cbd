"""What is on disk: actions, schema, features, properties, statistics, names (PROTOCOL.md).

One module an entity of PROTOCOL.md, each naming its section. No I/O, no Arrow.
"""

__all__: list[str] = []
