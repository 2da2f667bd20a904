"""Programs on disk: `files` writes and reads one, `records` is the form of its header, `cache` keeps many."""
