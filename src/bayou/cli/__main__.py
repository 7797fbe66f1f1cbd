"""Runs the `bayou` command as `python -m bayou.cli`."""

from bayou.cli.script import main

if __name__ == "__main__":
    main()
