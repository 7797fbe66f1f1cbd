"""The Delta log: listing, log segments, replay and commit times.

`segment` selects the log files of a version, `replay` reads them, `action_reconciliation`
reconciles their actions, and `table_state` holds the result. Start with `table_state`.
"""
