"""`python -m rheos` is the command `rheos`."""

from rheos.cli.main import main

if __name__ == "__main__":
    main()
