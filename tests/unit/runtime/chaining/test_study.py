"""The study as data: every class of the room is in it and every one of it in the room; rules name what they rest on."""

from __future__ import annotations

import inspect
import re

import pytest
from msgspec import structs

from aneforge.commands.chaining_explained import explain_part
from aneforge.errors import DataFileError, GraphError, UnknownNameError
from aneforge.runtime import chaining
from aneforge.runtime.chaining import (
    ANEInputBuffersReady,
    ANEOutputSetEnqueue,
    class_evidence,
    class_named,
    study,
    study_name,
)
from aneforge.runtime.chaining.chain_models import ModelState
from aneforge.runtime.chaining.chaining_study import Outcome, Study, find_studied_class
from aneforge.runtime.chaining.surfaces_mapper import MAPPING_SLOTS
from aneforge.targets import database


def test_classes_are_those_of_the_study() -> None:
    modelled = {name for name in dir(chaining) if name.startswith("ANE")}
    assert {f"_{name}" for name in modelled} == set(study().classes)
    for name in modelled:
        exact = f"_{name}"
        assert getattr(chaining, exact) is class_named(exact) is getattr(chaining, name)
        assert study_name(getattr(chaining, name)) == exact
        evidence = class_evidence(getattr(chaining, name))
        assert evidence.source.split()[0] in database().sources
        assert evidence.on == ("M4 Max",)


def test_every_experiment_is_named_and_those_that_were_taken_back_are_marked() -> None:
    known = study().experiments
    letters = "v1 v2 E E2 F G H I J K L M N O P Q R S T U V W1 W2 W3 W4 W5 X1 Y1 Y2 Y3 Z1"
    assert list(known) == letters.split()
    assert [name for name, one in known.items() if one.outcome is Outcome.WITHDRAWN] == ["U"]
    assert [name for name, one in known.items() if one.outcome is Outcome.CORRECTS] == ["W1"]
    assert [name for name, one in known.items() if one.outcome is Outcome.UNREPORTED] == ["J", "V", "W3"]
    assert known["N"].outcome is Outcome.PARTLY


def test_the_model_that_the_study_has_in_mind() -> None:
    model = study().model
    assert (model.layers, model.evaluations, model.round_trips_saved) == (12, 24, 23)
    assert model.round_trips_saved == model.evaluations - 1
    assert model.milliseconds_per_token == pytest.approx(model.evaluations * 0.2)


def test_encodings_say_how_wide_the_numbers_of_records_are() -> None:
    encodings = {name: one.encoding for name, one in study().encodings.items()}
    assert encodings["chainingRequestWithInputs"].count("@") - 2 == 9, "nine objects after the result and self"
    assert str(MAPPING_SLOTS) in encodings["ANEMemoryMappingParamsStruct"]
    largest = (1 << 32) - 1
    assert ANEInputBuffersReady(largest, execution_delay=(1 << 64) - 1)
    assert ANEOutputSetEnqueue(largest, largest, (1 << 64) - 1)
    for wrong in (lambda: ANEInputBuffersReady(largest + 1), lambda: ANEOutputSetEnqueue(0, largest + 1)):
        with pytest.raises(GraphError, match="must fit into 32 bits without a sign"):
            wrong()


def test_every_rule_has_its_experiments_and_a_remedy() -> None:
    for rule in study().rules.values():
        assert rule.experiments
        assert rule.remedy
        assert bool(rule.system) is (rule.kind == "measured")


def test_states_have_the_numbers_that_were_printed() -> None:
    assert {state.value: state.number for state in ModelState} == {
        "created": 1,
        "compiled": None,
        "loaded": 3,
        "failed": 5,
        "unloaded": None,
    }
    assert set(study().states) == {state.value for state in ModelState}


def test_an_unknown_class() -> None:
    assert find_studied_class("_ANEqosMAPPER")[0] == "_ANEQoSMapper"
    with pytest.raises(UnknownNameError, match="unknown class of the chaining study 'ANEBufer'; nearest: _ANEBuffer"):
        find_studied_class("ANEBufer")
    with pytest.raises(UnknownNameError, match="unknown class of the chaining study 'ANEBuffer'; nearest: _ANEBuffer"):
        class_named("ANEBuffer")
    with pytest.raises(UnknownNameError, match="unknown class of the chaining study 'int'"):
        study_name(int)
    assert not hasattr(chaining, "_ANEBufer")


def test_an_experiment_that_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    known = study()
    without = structs.replace(known, experiments={})

    def read(*_: object) -> Study:
        return without

    monkeypatch.setattr("aneforge.runtime.chaining.chaining_study.read", read)
    with pytest.raises(DataFileError, match=r"chaining_study\.toml: there is no experiment called E"):
        study.__wrapped__()


def test_methods_of_the_study_are_those_of_the_room() -> None:
    """A method that the room has is one of its class; what the study did not find, the class does not have."""
    for name, one in study().classes.items():
        kind = class_named(name)
        for method in one.methods:
            assert not method.python or callable(getattr(kind, method.python)), method
        for selector in (name for name in one.missing if name.startswith("-")):
            assert not hasattr(kind, snake_case(selector)), (name, selector)


def snake_case(selector: str) -> str:
    """Return a selector as Python would spell it."""
    words = selector.lstrip("+-").replace(":", "_").rstrip("_")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", words).lower()


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("_ANEInMemoryModel", "program_handle"),
        ("_ANEInMemoryModel", "hex_string_identifier"),
        ("_ANEModel", "model_attributes"),
        ("_ANEProgramForEvaluation", "queue_depth"),
        ("_ANESharedSignalEvent", "agent_mask"),
        ("_ANEBuffer", "io_surface_object"),
        ("_ANEIOSurfaceOutputSets", "stats_sur_ref"),
        ("_ANEPerformanceStats", "hw_execution_time"),
    ],
)
def test_properties_of_the_study_are_those_of_the_room(name: str, attribute: str) -> None:
    assert attribute in {snake_case(one) for one in study().classes[name].properties}
    source = inspect.getsource(class_named(name))
    assert re.search(rf"\b{attribute}\b", source)


def test_counts_of_methods() -> None:
    """As the study prints them; the methods of a stream were counted twice, with two results."""
    known = study()
    assert known.classes["_ANEModel"].counts == {"class_methods": 12, "instance_methods": 52, "properties": 17}
    assert known.classes["_ANEClient"].counts == {"instance_methods": 46}
    runtime = {name: tuple(one.counts.values()) for name, one in known.runtime_classes.items() if one.counts}
    assert runtime == {
        "MLE5Engine": (49, 10),
        "MLE5ProgramLibrary": (17, 5),
        "MLProgramE5Container": (11, 6),
        "MLE5ExecutionStreamOperation": (63,),
        "MLE5ExecutionStream": (21, 5),
        "MLE5ExecutionStreamPool": (11,),
        "MLE5StaticShapeExecutionStreamOperationPool": (17,),
        "MLE5InputPortBinder": (16, 6),
        "MLE5OutputPortBinder": (27, 9),
    }
    assert "29 (T)" in known.runtime_classes["MLE5ExecutionStream"].summary
    assert len(known.runtime_functions) == 4


def test_figures_of_experiments() -> None:
    known = study().experiments
    assert known["X1"].figures["layer norm, variance"] == 0.999975
    assert known["Y1"].figures == {"largest difference": 0.000021, "relative error": 1.40e-3}
    assert known["Y2"].figures == {"largest difference": 0.001106, "relative error": 1.05e-2}
    assert list(known["Y3"].figures.values()) == [1.017404]
    assert list(known["Z1"].figures.values()) == [0.001940, 1.02e-2, 0.012828, 3.92e-2]


def test_corrections_name_what_corrects_them() -> None:
    corrections = study().corrections
    assert [one.experiments for one in corrections] == [
        ("v1", "v2"),
        ("v2",),
        ("v2", "G"),
        ("v2", "E"),
        ("F", "K", "L"),
        ("v2", "I"),
        ("U", "W1"),
    ]
    named = {word.strip("().") for one in corrections for word in one.holds.split() if word.startswith("T1")}
    assert named == {"T12", "T13"} <= set(database().conflicts)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("_ANESharedEvents", "_ANESharedEvents"),
        ("prepareChainingWithModel:options:chainingReq:qos:error:", "_ANEClient"),
        ("+objectWithstatsSurRef:outputBuffer:", "_ANEIOSurfaceOutputSets"),
        ("MLE5InputPortBinder", "MLE5InputPortBinder"),
        ("v", "V"),
    ],
)
def test_parts_are_found_by_their_exact_names(name: str, found: str) -> None:
    assert explain_part(name).name == found
