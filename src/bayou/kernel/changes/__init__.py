"""What happened between two versions: raw actions, and rows that changed."""

__all__: list[str] = []
