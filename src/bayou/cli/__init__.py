"""The `bayou` command: thin, it prints what the layers below return."""
