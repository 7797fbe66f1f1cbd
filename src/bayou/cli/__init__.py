"""The `bayou` command line: parses arguments, calls the other packages, and prints results."""
