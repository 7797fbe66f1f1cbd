"""Unity Catalog: tables by name, vended credentials, external and managed tables.

`tables` resolves names such as `uc://catalog.schema.table` and registers tables, `catalog` commits
to managed tables, `client` sends the requests. `bayou.table` and `bayou.write` call this package.
"""

from typing import TYPE_CHECKING

from bayou import lazy_import

if TYPE_CHECKING:
    from bayou.unity.catalog import UnityCatalog
    from bayou.unity.tables import register_table

__all__ = ["UnityCatalog", "register_table"]

__getattr__ = lazy_import.lazy_getattr(
    __name__, {"UnityCatalog": "bayou.unity.catalog", "register_table": "bayou.unity.tables"}
)
