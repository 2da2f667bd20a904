"""Every operator that the installed onnx knows has a way into the graph, or is declared."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import onnx.defs
import pytest

from aneforge.formats.onnx.contributed import DEFAULT_SIGNATURES, RUNTIME_SIGNATURES
from aneforge.formats.onnx.registry import converter_of, converters
from aneforge.formats.onnx.rules import RUNTIME_DOMAIN, newest_version, rules_of

OLDEST = 7
"""Oldest version of the default operator set whose forms are all read."""


def current_at(schema: onnx.defs.OpSchema, version: int) -> bool:
    found = rules_of(schema.name, version, schema.domain)
    return found is not None and found.since == schema.since_version


def has_a_way(schema: onnx.defs.OpSchema) -> bool:
    rules = rules_of(schema.name, schema.since_version, schema.domain)
    if rules is None:
        return True
    bodies = rules.bodies
    own = converter_of(schema.domain, schema.name, schema.since_version) is not None
    return own or (bodies is not None and (bodies.has_function or bodies.has_context_dependent_function))


def test_every_operator_of_the_default_set_has_a_way() -> None:
    schemas = [one for one in onnx.defs.get_all_schemas_with_history() if one.domain == ""]
    forms = [
        one for one in schemas if any(current_at(one, version) for version in range(OLDEST, newest_version("") + 1))
    ]
    assert len(forms) > 500
    assert [f"{one.name} {one.since_version}" for one in forms if not has_a_way(one)] == []


@pytest.mark.parametrize("domain", ["ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"])
def test_every_operator_of_other_sets_has_a_way(domain: str) -> None:
    schemas = [one for one in onnx.defs.get_all_schemas_with_history() if one.domain == domain]
    assert schemas
    assert [one.name for one in schemas if not has_a_way(one)] == []


def test_converters_are_of_operators_that_exist() -> None:
    known = {(one.domain, one.name) for one in onnx.defs.get_all_schemas_with_history()}
    added = {("", name) for name in DEFAULT_SIGNATURES} | {(RUNTIME_DOMAIN, name) for name in RUNTIME_SIGNATURES}
    assert set(converters()) <= known | added
    assert added <= set(converters())


def test_the_forms_of_a_converter_do_not_overlap() -> None:
    for entries in converters().values():
        ordered = sorted(entries, key=lambda entry: entry.since)
        for one, other in pairwise(ordered):
            assert one.until < other.since


def test_nothing_of_onnx_is_imported_before_a_model_is_read() -> None:
    program = "import sys; import aneforge.formats.onnx.onnx_model; print('onnx' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_all_forms_of_an_operator_are_in_one_module() -> None:
    """Modules are imported until one has the operator that is asked for."""
    for name, entries in converters().items():
        assert len({one.convert.__module__ for one in entries}) == 1, name
