"""The default engine: local files and obstore for storage, pyarrow for JSON and Parquet.

Start reading at `engine.ArrowEngine`. `files` selects the storage by the scheme of a path.
"""

from bayou.engines.arrow.engine import ArrowEngine

__all__ = ["ArrowEngine"]
