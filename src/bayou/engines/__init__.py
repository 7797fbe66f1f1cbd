from bayou.engines.selection import for_path, from_description

__all__ = ["for_path", "from_description"]
