"""The study as data: every class of the room is in it and every one of it in the room; rules name what they rest on."""

from __future__ import annotations

import pytest
from msgspec import structs

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
from aneforge.runtime.chaining.chaining_study import Outcome, Study, studied_class
from aneforge.runtime.chaining.surfaces_mapper import MAPPING_SLOTS
from aneforge.targets import database


def test_classes_are_those_of_the_study() -> None:
    modelled = {name for name in chaining.__all__ if name.startswith("ANE")}
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
    letters = "v1 v2 E E2 F G H I K L M N O P Q R S T U W1 W2 W4 W5 X1 Y1 Y2 Y3 Z1"
    assert list(known) == letters.split()
    assert [name for name, one in known.items() if one.outcome is Outcome.WITHDRAWN] == ["U"]
    assert [name for name, one in known.items() if one.outcome is Outcome.CORRECTS] == ["W1"]


def test_the_model_that_the_study_has_in_mind() -> None:
    model = study().model
    assert (model.layers, model.evaluations, model.round_trips_saved) == (12, 24, 23)
    assert model.round_trips_saved == model.evaluations - 1


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
    assert studied_class("_ANEqosMAPPER")[0] == "_ANEQoSMapper"
    with pytest.raises(UnknownNameError, match="unknown class of the chaining study 'ANEBufer'; nearest: _ANEBuffer"):
        studied_class("ANEBufer")
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
