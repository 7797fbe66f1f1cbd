"""Generates the reference page of Spark settings from `bayou.spark.session.settings`."""

from __future__ import annotations

from bayou.spark.session.settings import SETTINGS

__all__ = ["page"]

_HEAD = """# Settings

A setting is an option of a read or write (`.option(name, value)`), a session conf
(`spark.conf.set`), or an environment variable; the first one that is set applies. `spark-submit
--conf` only passes names that begin with `spark.`: prefix other names with `spark.`. The
environment variable of `bayou.replay.localBytes` is `BAYOU_REPLAY_LOCALBYTES`, and so on.

Session confs apply in the driver's process: to `DistributedScanBuilder`, `state_reconstruction`,
and to reads and streams after `bayou.spark.enable(spark)`. Without `enable`, the data source plans
in processes that only have options and the environment.

"""


def page() -> str:
    """Return the content of the page."""
    rows = ["| setting | default | meaning |\n|---|---|---|\n"]
    for setting in SETTINGS:
        names = "<br>".join(f"`{name}`" for name in setting.names)
        rows.append(f"| {names} | {setting.default} | {setting.meaning} |\n")
    return _HEAD + "".join(rows)
