"""The settings of the Spark connector as a page: every one of `bayou.spark.session.settings`."""

from __future__ import annotations

from bayou.spark.session.settings import SETTINGS

__all__ = ["page"]

_HEAD = """# Settings

Each is an option of a read or write (`.option(name, value)`), session conf (`spark.conf.set`), or
an environment variable; the first one that is set counts. `spark-submit --conf` passes on names
that begin with `spark.` only: put `spark.` before a name of ours.

Session conf is seen by what runs in the driver's own process: `DistributedScanBuilder`,
`state_reconstruction`, and after `bayou.spark.enable(spark)` reads and streams. Without `enable` a
data source plans in processes that know options and environment only.

"""


def page() -> str:
    """The page's text."""
    rows = ["| setting | in the environment | default | meaning |\n|---|---|---|---|\n"]
    for setting in SETTINGS:
        names = "<br>".join(f"`{name}`" for name in setting.names)
        rows.append(
            f"| {names} | `{setting.environment}` | {setting.default} | {setting.meaning} |\n"
        )
    return _HEAD + "".join(rows)
