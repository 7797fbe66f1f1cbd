"""The Delta log: listing, log segments, replay and commit times.

Start reading at `table_state`, which loads a version of a table. `segment` selects the log files of
the version, `replay` reads these files, and `action_reconciliation` reconciles their actions.
"""
