"""Settings and environment of a Spark session: configuration, storage options, versions.

Start with `settings`, which defines every setting.
"""
