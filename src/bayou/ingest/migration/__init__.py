"""Migration of existing JSON files into a topic's table.

Start reading at `migrate`. The migration ledger (`ledger`) records which files were migrated.
`verify` compares the records of the files with the rows of the table.
"""

from typing import TYPE_CHECKING

from bayou import lazy_import

if TYPE_CHECKING:
    from bayou.ingest.migration.ledger import Ledger, migrated_end, migrated_offsets
    from bayou.ingest.migration.migrate import migrate_json
    from bayou.ingest.migration.verify import FileCheck, verify_migration

__all__ = [
    "FileCheck",
    "Ledger",
    "migrate_json",
    "migrated_end",
    "migrated_offsets",
    "verify_migration",
]

__getattr__ = lazy_import.lazy_getattr(
    __name__,
    {
        "FileCheck": "bayou.ingest.migration.verify",
        "Ledger": "bayou.ingest.migration.ledger",
        "migrate_json": "bayou.ingest.migration.migrate",
        "migrated_end": "bayou.ingest.migration.ledger",
        "migrated_offsets": "bayou.ingest.migration.ledger",
        "verify_migration": "bayou.ingest.migration.verify",
    },
)
