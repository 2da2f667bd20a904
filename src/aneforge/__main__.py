"""`python -m aneforge` is the `aneforge` command."""

from aneforge.cli.entry import main

if __name__ == "__main__":
    main()
