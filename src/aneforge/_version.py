"""The version of the distribution `aneforge-open`, in its one place (the build reads it from here)."""

__version__ = "0.1.0"
