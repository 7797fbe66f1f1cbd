"""Writing: from a builder by a transaction and its data files to a commit."""

__all__: list[str] = []
