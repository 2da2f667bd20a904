"""The study as data: every class of the room is in it and every one of it in the room; rules name what they rest on."""

from __future__ import annotations

import pytest

from aneforge.errors import DataFileError, UnknownNameError
from aneforge.runtime import chaining
from aneforge.runtime.chaining import class_evidence, study
from aneforge.runtime.chaining.chain_models import ModelState
from aneforge.runtime.chaining.chaining_study import Outcome, Study, studied_class
from aneforge.targets import database


def test_classes_are_those_of_the_study() -> None:
    modelled = {name for name in chaining.__all__ if name.startswith("ANE")}
    assert {f"_{name}" for name in modelled} == set(study().classes)
    for name in modelled:
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


def test_an_experiment_that_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    known = study()
    without = Study(known.source, known.on, known.model, {}, known.classes, known.rules, known.failures, known.states)

    def read(*_: object) -> Study:
        return without

    monkeypatch.setattr("aneforge.runtime.chaining.chaining_study.read", read)
    with pytest.raises(DataFileError, match=r"chaining_study\.toml: there is no experiment called E"):
        study.__wrapped__()
