"""Settings and environment of a Spark session: configuration, storage options, versions.

Start reading at `settings`, which defines every setting.
"""
