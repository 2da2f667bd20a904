"""Whatever the tests and examples compile is cached in a folder of this run, not in the user's."""

import os
import tempfile

CACHE = tempfile.TemporaryDirectory(prefix="aneforge-tests-")
os.environ["ANEFORGE_CACHE_DIR"] = CACHE.name
