"""Runs the `bayou` command as `python -m bayou.cli`."""

from bayou.cli.main import main

if __name__ == "__main__":
    main()
