"""Many samples: the bits, states and labels of one call after the other, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import aneforge as af
from aneforge.errors import GraphError, GraphTypeError

Array = npt.NDArray[Any]
GENERATOR = np.random.default_rng(4)
VALUES = (GENERATOR.standard_normal((5, 1, 8)) * 30).astype(np.float32)


@pytest.mark.parametrize("backend", ["software", "reference", "cpu_fp16"])
def test_samples_have_the_bits_of_calls_one_after_the_other(backend: str) -> None:
    weight = GENERATOR.standard_normal((4, 8)).astype(np.float16)
    graph = af.input((1, 8), name="x").linear(weight).gelu()
    with af.compile(graph, target="m1", backend=backend) as model:
        many = model.run_many(VALUES)
        assert many.dtype == np.float32
        assert [one.tobytes() for one in many] == [model(one).tobytes() for one in VALUES]
        assert model.run_many(x=VALUES[:1]).shape == (1, 1, 4)


def test_the_label_is_that_of_the_least_sure_sample() -> None:
    with af.compile(af.input((1, 8), name="x") * 2.0, target="m1") as model:
        special = VALUES.copy()
        special[2, 0, 0] = np.inf
        model.run_many(VALUES)
        sure = model.last_label
        model.run_many(special)
        assert sure is not None
        assert model.last_label is not None
        assert model.last_label.exactness.doubt > sure.exactness.doubt


def test_states_and_buffers_are_those_after_the_last_sample() -> None:
    def stateful() -> af.Graph:
        held = af.state("held", (1, 32))
        now = held + af.input((1, 32), name="x")
        return af.Graph({"y": now * 2.0}, {"held": now})

    values = GENERATOR.standard_normal((3, 1, 32)).astype(np.float32)
    with af.compile(stateful(), target="m4") as one, af.compile(stateful(), target="m4") as many:
        single = [np.asarray(one(value)) for value in values]
        assert np.array_equal(np.asarray(many.run_many(values)), np.stack(single))
        assert many.loaded.read_state("held").tobytes() == one.loaded.read_state("held").tobytes()
        assert many.output_view().tobytes() == one.output_view().tobytes()
        assert many.loaded.executions == 3


def test_several_inputs_have_one_number_of_samples() -> None:
    graph = af.input((1, 8), name="x") + af.input((1, 8), name="y")
    with af.compile(graph, target="m1") as model:
        with pytest.raises(GraphError, match="one and the same number of samples"):
            model.run_many(VALUES, VALUES[:2])
        with pytest.raises(GraphError, match="wrong shape"):
            model.run_many(VALUES[:, :, :4], VALUES)
        with pytest.raises(GraphError, match="the inputs are 'x', 'y'"):
            model.run_many(VALUES)
        with pytest.raises(GraphError, match="at least one"):
            model.run_many(VALUES[:0], VALUES[:0])
        with pytest.raises(GraphTypeError, match="takes numbers"):
            model.run_many(np.full((1, 1, 8), "a"), VALUES[:1])
