"""The Delta log: listing, log segments, replay and commit times.

`segment` says which log files make up a version, `replay` reconciles their actions, `table_state`
is the result for one version.
"""
