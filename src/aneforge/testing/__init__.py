"""Hypothesis strategies for calls of operations, graphs, networks, programs and network descriptions.

They serve the tests and fuzzers of a checkout: wheels leave them out, and nothing else in the package imports them.
"""

from importlib.util import find_spec

if find_spec("hypothesis") is None:
    raise ImportError(f"{__name__} needs Hypothesis: pip install '.[test]'", name="hypothesis")
