"""Upkeep of the log: checkpoints."""

__all__: list[str] = []
