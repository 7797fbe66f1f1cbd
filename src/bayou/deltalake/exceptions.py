"""Bayou's errors, under the names of the exceptions in `deltalake.exceptions`."""

from bayou.errors import BayouError as DeltaError
from bayou.errors import CommitError as CommitFailedError
from bayou.errors import ProtocolError as DeltaProtocolError
from bayou.errors import SchemaError as SchemaMismatchError
from bayou.errors import TableNotFoundError

__all__ = [
    "CommitFailedError",
    "DeltaError",
    "DeltaProtocolError",
    "SchemaMismatchError",
    "TableNotFoundError",
]
