"""Modules, arguments and programs that cannot be taken over: one clear error each, everything that stops it listed."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# PyTorch types a part of its functions alone.

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import aneforge as af
from aneforge.errors import GraphError, GraphTypeError, NotSupportedError, UnknownNameError
from aneforge.formats.shared.findings import Reason, UnsupportedModelError
from aneforge.formats.torch.decomposition import symbol_ranges
from aneforge.formats.torch.places import is_users
from aneforge.formats.torch.torch_model import from_torch, torch_states

if TYPE_CHECKING:
    from aneforge.formats.torch.reading import ProgramSource


class Branching(nn.Module):
    """Its control flow depends on data."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x, or its negative."""
        return x if x.sum() > 0 else -x


class Several(nn.Module):
    """Two operators that are not supported here, and one that has."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return three results."""
        return torch.linalg.svdvals(x), torch.special.gammaln(x), torch.relu(x)


class Masked(nn.Module):
    """How many results it has depends on data."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the elements above 0."""
        return x[x > 0]


class Dropping(nn.Module):
    """Dropout in training."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Return x, some of it dropped."""
        return self.drop(x)


class Doubled(nn.Module):
    """Two inputs, one twice as long as the other."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return a sum."""
        return y + torch.cat([x, x])


def doubled() -> torch.export.ExportedProgram:
    length = torch.export.Dim("length", min=2, max=64)
    shapes = {"x": {0: length}, "y": {0: 2 * length}}
    return torch.export.export(Doubled(), (torch.ones(4), torch.ones(8)), dynamic_shapes=shapes)


def symbol(program: torch.export.ExportedProgram) -> str:
    return str(next(iter(program.range_constraints)))


def test_control_flow_that_depends_on_data_names_the_line() -> None:
    with pytest.raises(NotSupportedError, match="depends on data") as raised:
        from_torch(Branching(), torch.ones(3))
    assert raised.value.location is not None
    assert str(raised.value.location.file).endswith("test_bad_programs.py")
    assert "torch.where" in str(raised.value.remedy)


def test_everything_that_stops_a_program_is_listed() -> None:
    with pytest.raises(UnsupportedModelError) as raised:
        from_torch(Several(), torch.eye(3))
    found = [(one.operator, one.reason, bool(one.workaround)) for one in raised.value.findings]
    assert found == [("_linalg_svd.default", Reason.FORM, True), ("lgamma.default", Reason.FORM, True)]
    assert "test_bad_programs.py:" in raised.value.findings[0].message


def test_complex_numbers_have_no_meaning_at_a_port() -> None:
    with pytest.raises(UnsupportedModelError, match="input 'x': tensors of complex64"):
        from_torch(Doubled(), (torch.ones(2, dtype=torch.complex64), torch.ones(4)))


def test_shapes_that_depend_on_data_are_told() -> None:
    with pytest.raises(NotSupportedError, match=r"depends on (the )?data"):
        from_torch(Masked(), torch.ones(4))


def test_training_is_told_with_the_remedy() -> None:
    with pytest.raises(UnsupportedModelError, match=r"module\.eval\(\)"):
        from_torch(Dropping().train(), torch.ones(4))
    assert from_torch(Dropping().eval(), torch.ones(4)).outputs["y"].shape == (4,)


def test_an_operator_of_somebody_elses_is_named() -> None:
    library = torch.library.Library("aneforge_tests", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", torch.neg, "CompositeExplicitAutograd")

    class Custom(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return cast("Tensor", torch.ops.aneforge_tests.twice(x))

    with pytest.raises(UnsupportedModelError, match="aneforge_tests::twice") as raised:
        from_torch(Custom(), torch.ones(2))
    assert raised.value.findings[0].reason is Reason.OPERATOR


def test_all_open_dimensions_are_one_error() -> None:
    program = doubled()
    name = symbol(program)
    with pytest.raises(GraphError, match="2 open dimensions") as raised:
        from_torch(program)
    assert f"axis 0 of input 'x' is '{name}'" in str(raised.value)
    assert f"axis 0 of input 'y' is '2*{name}'" in str(raised.value)


def test_a_dimension_is_bound_by_its_name_by_a_shape_or_by_examples() -> None:
    program = doubled()
    graphs = [
        from_torch(program, shapes={symbol(program): 5}),
        from_torch(program, shapes={"x": (5,)}),
        from_torch(program, shapes={"y": (10,), "x": (5,)}),
        from_torch(program, (torch.ones(5), torch.ones(10))),
    ]
    for graph in graphs:
        found = af.reference(graph, [np.arange(5.0), np.zeros(10)])["y"]
        assert found.tolist() == [*range(5), *range(5)]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"x": (5,), "y": (11,)}, "no length of|contradicts|two lengths"),
        ({"x": (5,), "y": (12,)}, "two lengths|contradicts"),
        ({"x": (65,)}, "outside of what the program was traced for"),
        ({"x": (5, 1)}, "contradicts the model"),
        ({"x": (-1,)}, "negative"),
        ({"z": 3}, "unknown symbolic dimension or input"),
        ({"x": "five"}, "neither an integer nor a list"),
        ([5], "not a mapping"),
    ],
)
def test_shapes_that_do_not_fit(shapes: object, message: str) -> None:
    with pytest.raises((GraphError, UnknownNameError), match=message):
        from_torch(doubled(), shapes=shapes)  # pyright: ignore[reportArgumentType] - what the test is about


@pytest.mark.parametrize(
    ("source", "inputs", "error", "message"),
    [
        (nn.ReLU(), None, GraphError, "there are none"),
        (nn.ReLU(), 3, GraphTypeError, "example inputs are"),
        (nn.ReLU(), {1: torch.ones(1)}, GraphTypeError, "example inputs are"),
        (nn.Linear(4, 2), torch.ones(1, 5), NotSupportedError, "PyTorch cannot export it"),
        (nn.Linear(4, 2), (torch.ones(1, 4), torch.ones(1)), NotSupportedError, "PyTorch cannot export it"),
        (torch.relu, torch.ones(1), GraphTypeError, "a program is given by a module"),
    ],
)
def test_arguments_of_the_wrong_sort(source: object, inputs: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        from_torch(cast("ProgramSource", source), inputs)  # pyright: ignore[reportArgumentType] - what the test is about


@pytest.mark.parametrize(
    ("examples", "message"),
    [((torch.ones(3),), "not those of the program"), ((torch.ones(3, 1), torch.ones(6)), "a different rank")],
)
def test_example_inputs_of_another_program(examples: tuple[Tensor, ...], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        from_torch(doubled(), examples)


class Counter(nn.Module):
    """A buffer that is counted up, and one that is overwritten without being read."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.ones(1))
        self.register_buffer("last", torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        """Return x times the count."""
        count, last = cast("Tensor", self.count), cast("Tensor", self.last)
        count += 1
        last.copy_(x)
        return x * count


def test_states_that_do_not_start_from_zeros_are_told_of() -> None:
    with pytest.warns(UserWarning, match="state 'count' of the graph starts from zeros"):
        graph = from_torch(Counter(), torch.ones(2))
    assert set(graph.states) == {"count", "last"}
    states = torch_states(Counter(), torch.ones(2))
    assert af.reference(graph, [np.array([3.0, 4.0])], states)["y"].tolist() == [6.0, 8.0]


def test_weights_are_copied_unless_they_are_shared() -> None:
    module = nn.Linear(2, 1, bias=False)
    copied = from_torch(module, torch.ones(1, 2))
    shared = from_torch(module, torch.ones(1, 2), share_weights=True)
    with torch.no_grad():
        module.weight.fill_(7.0)
    assert 7.0 not in next(iter(copied.constants.values())).dense()
    assert np.shares_memory(next(iter(shared.constants.values())).dense(), module.weight.detach().numpy())


def test_tied_weights_are_one_constant() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
            self.second.weight = self.first.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.first(x))

    assert len(from_torch(Tied(), torch.ones(1, 3)).constants) == 1


def test_a_choice_by_data_becomes_a_choice_between_both() -> None:
    class Choice(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return cast("Tensor", torch.cond(x.sum() > 0, torch.sin, torch.neg, (x,)))

    graph = from_torch(Choice(), torch.ones(2))
    assert af.reference(graph, [np.array([-1.0, -2.0])])["y"].tolist() == [1.0, 2.0]
    np.testing.assert_allclose(af.reference(graph, [np.array([1.0, 2.0])])["y"], np.sin([1.0, 2.0]))


def test_an_input_that_is_written_comes_out() -> None:
    class Writing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x.add_(1)
            return x * 2

    graph = from_torch(Writing(), torch.ones(2))
    assert list(graph.outputs) == ["x_written", "y"]


def test_a_derived_dimension_of_a_file_is_bound_like_that_of_a_program(tmp_path: Path) -> None:
    torch.export.save(doubled(), tmp_path / "doubled.pt2")
    graph = from_torch(tmp_path / "doubled.pt2", shapes={"x": (5,)})
    assert af.reference(graph, [np.arange(5.0), np.zeros(10)])["y"].tolist() == [*range(5), *range(5)]
    read = torch.export.load(tmp_path / "doubled.pt2")
    ranges = dict(symbol_ranges(read))
    from_torch(read, shapes={"x": (5,)})
    assert any(not getattr(one, "is_Symbol", True) for one in ranges)
    assert symbol_ranges(read) == ranges, "the ranges of a caller's program are as they were"


class Noisy(nn.Module):
    """It writes to the standard error stream, and PyTorch cannot export it."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x, or its negative."""
        sys.stderr.write("the module's own words\n")
        return x.clone() if (x + 1).sum() > 0 else -x


def test_the_graph_that_pytorch_prints_is_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NotSupportedError, match="depends on data"):
        from_torch(Noisy(), torch.ones(3))
    assert capfd.readouterr() == ("", "the module's own words\n")
    assert sys.stderr.write("") == 0


def test_a_mask_of_a_transformer_has_a_remedy_that_helps() -> None:
    layer = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 8), 1).eval()
    inputs = {"tgt": torch.ones(3, 1, 8), "memory": torch.ones(2, 1, 8), "tgt_mask": torch.zeros(3, 3)}
    with pytest.raises(NotSupportedError) as raised:
        from_torch(layer, inputs)
    assert "tgt_is_causal=" in str(raised.value.remedy)
    assert from_torch(layer, {**inputs, "tgt_is_causal": False}).outputs["y"].shape == (3, 1, 8)


@pytest.mark.filterwarnings("ignore")  # PyTorch's own, of a form that it gives up
def test_packed_weights_are_told_of_without_a_line_of_the_standard_library() -> None:
    quantised = torch.ao.quantization.quantize_dynamic  # pyright: ignore[reportDeprecated] - users still have it
    module = quantised(nn.Sequential(nn.Linear(2, 2)), {nn.Linear})
    with pytest.raises(NotSupportedError, match="quantised to packed weights") as raised:
        from_torch(module, torch.ones(1, 2))
    assert "quantize_dynamic" in str(raised.value.remedy)
    place = raised.value.location
    assert place is None or not str(place.file).startswith(str(Path(os.__file__).parent))


def test_frames_of_the_standard_library_are_nobodys() -> None:
    assert not is_users(contextlib.__file__)
    assert not is_users(torch.export.__file__)
    assert is_users(str(Path(os.__file__).parent / "site-packages" / "network" / "layers.py"))


@pytest.mark.filterwarnings("ignore:.*lifted_tensor")
def test_constants_that_are_sparse_or_without_data_are_named() -> None:
    class Sparse(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.eye(4).to_sparse()

        def forward(self, x: Tensor) -> Tensor:
            return torch.sparse.mm(self.weight, x)

    class Slope(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return cast("Tensor", torch.func.grad(squares)(x))

    with pytest.raises(GraphError, match="'weight' is a sparse tensor constant") as raised:
        from_torch(Sparse(), torch.ones(4, 2))
    assert "to_dense()" in str(raised.value.remedy)
    with pytest.raises(GraphError, match="is a constant without data"):
        from_torch(Slope(), torch.ones(2))


def squares(x: Tensor) -> Tensor:
    return (x**2).sum()


def test_nothing_of_pytorch_is_imported_before_a_program_is_read() -> None:
    program = "import sys; import aneforge; aneforge.from_torch; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
