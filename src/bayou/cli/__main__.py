"""`python -m bayou.cli`, where the command isn't on the PATH."""

from bayou.cli.main import main

if __name__ == "__main__":
    main()
