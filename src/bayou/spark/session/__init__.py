"""Settings and environment of a Spark session: configuration, storage options, versions.

Start at `settings`, which has every setting.
"""
