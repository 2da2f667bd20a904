"""The `aneforge` command: it parses arguments, calls the library and renders what comes back. It decides nothing."""
