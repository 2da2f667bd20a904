"""`Trainer`: a network is trained on one target, exactly as its programs compute there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict, cast

import numpy as np

from aneforge.errors import GraphError, GraphTypeError, NotSupportedError
from aneforge.graph.graph import INPUT
from aneforge.graph.methods.base import as_array
from aneforge.graph.methods.method_arguments import whole
from aneforge.graph.tensor import Tensor
from aneforge.packages import expect_package
from aneforge.targets import place_of
from aneforge.train.batches import build_dataset, check_one_hot, check_rows, check_values
from aneforge.train.checkpoints import read_checkpoint, write_checkpoint
from aneforge.train.joint_graph import JointLoss
from aneforge.train.loss_scale import DynamicLossScale, get_fixed_scale, scale_on_engine
from aneforge.train.objectives import CrossEntropy, as_objective
from aneforge.train.optimiser_choice import OptimizerOptions
from aneforge.train.parameter import Parameter
from aneforge.train.resident_run import ResidentRun, build_resident_programs
from aneforge.train.run_comparison import RunComparison, compare_runs, label_of
from aneforge.train.saturation_guard import warn_of_saturation
from aneforge.train.scale_advice import advise, advise_alone
from aneforge.train.step_programs import build_programs
from aneforge.train.training_report import TrainingReport, report_on
from aneforge.train.training_run import TrainingRun

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Self, Unpack

    import torch

    from aneforge.graph.node import Node
    from aneforge.ops.types import Array
    from aneforge.runtime.backends import Backend
    from aneforge.targets import Place, TargetLike
    from aneforge.train.optimisers import Rate
    from aneforge.train.torch_step import Loss

__all__ = ["Trainer"]

OP = "Trainer"


class TrainerOptions(TypedDict, total=False):
    """The options of `Trainer` that `from_torch` passes on."""

    loss_scale: float | str | DynamicLossScale
    data_inputs: Mapping[Tensor, object] | None
    optimizer: str
    betas: tuple[float, float]
    eps: float
    device_optimizer: bool
    resident_state: bool
    momentum: float
    weight_decay: float | None
    clip_norm: float | None
    accumulate: int
    target: TargetLike
    backend: str | Backend | None


class Trainer:
    """Trains parameters to make an objective small: gradients on the engine, updates on the host in float32.

    With `device_optimizer`, updates are programs on the engine too, and states are kept in fp16: "sgd", "adam" as
    documented, and "adam_fp16", whose second moments do not vanish in fp16.

    Forward and backward pass of a step are one program, and the forward pass is another one; both are compiled here,
    with the parameters as inputs, and nothing is compiled later. With `resident_state` the update is part of the step's
    program, and parameters and moments stay in its buffers: the host feeds the mini-batch and the rate, and reads
    parameters for a loss, an accuracy, a checkpoint or `state_dict`.

    `lr` is a number or a function of the number of the step, from 1. `loss_scale` multiplies the loss before the
    backward pass and is divided out before the update: it is a number, "auto", which takes what `loss_scale_advice`
    recommends for the first mini-batch, or a `DynamicLossScale`. `data_inputs` are values of inputs that are the same
    in every step. `clip_norm` bounds the norm of all gradients together; `accumulate` is the number of mini-batches of
    one update. A step with a gradient that is not finite is skipped.

    >>> import numpy as np
    >>> import aneforge as af
    >>> x, t, w = af.input((4, 2)), af.input((4, 1)), af.parameter(np.zeros((2, 1)))
    >>> X = np.array([[0, 1], [1, 0], [1, 1], [1, -1]])
    >>> data = {x: X, t: X @ [[1.0], [2.0]]}
    >>> trainer = af.Trainer(af.mse(x @ w, t), [w], lr=0.25, data_inputs=data, target=af.targets.Family.A13)
    >>> losses = [trainer.step() for _ in range(20)]
    >>> losses[0], trainer.loss() < 1e-3
    (3.75, True)

    Raises:
        GraphError: The loss is not a scalar or does not depend on a parameter; a number is out of its range.
        GraphTypeError: A parameter does not come from `parameter` or `conv_param`, or an argument has the wrong type.
        UnknownNameError: There is no such optimizer.
        AneforgeError: Whatever `backward` and `compile` raise.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the documented signature
        self,
        objective: Tensor | CrossEntropy | JointLoss,
        params: Sequence[Parameter],
        lr: Rate,
        loss_scale: float | str | DynamicLossScale = 1.0,
        data_inputs: Mapping[Tensor, object] | None = None,
        optimizer: str = "sgd",
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        device_optimizer: bool = False,  # noqa: FBT001, FBT002 - the documented signature
        resident_state: bool = False,  # noqa: FBT001, FBT002 - as above
        *,
        momentum: float = 0.0,
        weight_decay: float | None = None,
        clip_norm: float | None = None,
        accumulate: int = 1,
        target: TargetLike = None,
        backend: str | Backend | None = None,
    ) -> None:
        self.objective = as_objective(objective)
        self.backend = backend
        options = OptimizerOptions(
            optimizer, betas, eps, momentum, weight_decay, clip_norm, on_device=bool(device_optimizer or resident_state)
        )
        self.is_resident = bool(resident_state)
        scale = scale_on_engine(loss_scale) if self.is_resident else get_fixed_scale(loss_scale)
        scaling = loss_scale if isinstance(loss_scale, DynamicLossScale) else None
        if scaling is not None:
            self.objective.check_scale(scaling.most)
        chosen = options.build(params, lr, scale or (1.0 if scaling is None else scaling.first))
        runs = whole(accumulate, OP, "accumulate", least=1)
        self.place = place_of(target)
        chosen = chosen if self.is_resident else chosen.for_target(self.place, backend)
        self.optimizer = chosen
        self.programs = (
            build_resident_programs(self.objective, chosen, scale, self.place, backend)
            if self.is_resident
            else build_programs(self.objective, chosen.params, scale, self.place, backend)
        )
        self.scale_is_open = scale is None and scaling is None
        """True where the loss scale is still to be chosen from data."""
        if not self.scale_is_open:
            self.warn_of_saturation()
        fixed = self.check_fixed({} if data_inputs is None else data_inputs)
        kind = ResidentRun if self.is_resident else TrainingRun
        self.run = kind(
            self.objective,
            self.programs,
            chosen,
            runs,
            fixed,
            scaling=scaling,
            module_state=self.objective.new_module_state(),
        )

    @classmethod
    def from_torch(
        cls,
        module: torch.nn.Module,
        loss: Loss,
        example_inputs: object,
        lr: Rate,
        *,
        dropout_seed: int = 0,
        **options: Unpack[TrainerOptions],
    ) -> Self:
        """Return the trainer of a torch module, whose step is the joint graph that torch itself traces.

        `loss` is a function of the module's output and a target. `example_inputs` are the module's inputs and then the
        target; a batch is as large as theirs. Indices (of classes, of rows of an embedding) are fed as numbers, below
        2,048. `inputs` are the inputs that data are for, in the same order; `state_dict` has the trained values by the
        module's names. The module itself stays as it is. Options are those of `Trainer`.

        In training mode dropout leaves out what masks say, which are drawn from `dropout_seed` and the number of the
        mini-batch, and batch norms move their running statistics. `loss` leaves nothing out.

        >>> import numpy as np
        >>> import torch
        >>> import aneforge as af
        >>> module, x = torch.nn.Linear(3, 1), torch.randn(8, 3, generator=torch.manual_seed(0))
        >>> loss = torch.nn.functional.mse_loss
        >>> family = af.targets.Family.A16
        >>> trainer = af.Trainer.from_torch(module, loss, (x, x[:, :1]), lr=0.5, loss_scale=64, target=family)
        >>> trainer.set_dataset(trainer.inputs[0], x.numpy(), trainer.inputs[1], x[:, :1].numpy())
        >>> losses = [trainer.step() for _ in range(20)]
        >>> losses[-1] < 0.01, sorted(trainer.state_dict())
        (True, ['bias', 'weight'])

        Raises:
            MissingPackageError: PyTorch is not installed.
            GraphError: The loss is not one number, or does not depend on a parameter.
            GraphTypeError: An argument is not a module, a function or a tensor.
            NotSupportedError: The module changes other buffers or draws other random numbers, torch cannot trace it, or
                nodes are not supported here.
        """
        expect_package("torch")
        from aneforge.train.torch_step import trace_step  # noqa: PLC0415 - it imports torch

        traced = trace_step(module, loss, example_inputs, whole(dropout_seed, OP, "dropout_seed", least=0))
        return cls(traced, traced.params, lr, **options)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The inputs that data are for: all of a step but parameters, moments, rate, loss scale and masks."""
        masks = (one.node for one in self.run.module_state.masks)
        known = {*(one.node for one in self.parameters), *masks, *self.programs.fed_by_host}
        return tuple(Tensor(node) for node in self.programs.step.graph.inputs.values() if node not in known)

    def state_dict(self) -> dict[str, Array]:
        """Return copies of the parameters in float32, by name; one without a name is called by its place.

        Of a torch module it is all that the module's own has: tied parameters by all their names, running statistics as
        the run moved them, other buffers as they were.
        """
        self.run.read_back()
        if isinstance(self.objective, JointLoss):
            state, moved = self.objective.state, self.run.module_state.values
            kept = {name: one.value if isinstance(one, Parameter) else one for name, one in state.items()}
            return {name: moved.get(name, one).copy() for name, one in kept.items()}
        params = self.parameters
        return {label_of(params, place): one.value.copy() for place, one in enumerate(params)}

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters, each with its present value."""
        return self.optimizer.params

    @property
    def target(self) -> str:
        """The name of the target that the programs were compiled for."""
        return self.programs.target

    @property
    def loss_scale(self) -> float:
        """The present loss scale; 1 while "auto" still waits for data."""
        return self.optimizer.loss_scale

    def set_dataset(
        self,
        x_input: Tensor,
        X: object,  # noqa: N803 - the documented name
        target_input: Tensor,
        Y_onehot: object,  # noqa: N803 - as above
        seed: int = 0,
    ) -> None:
        """Take mini-batches from arrays, in the order of permutations drawn from a seed.

        `Y_onehot` are the targets: one-hot rows for a classification, or whatever the target input takes. A permutation
        is used up in order; when fewer rows than a batch are left, the next one is drawn.

        Raises:
            GraphError: Shapes do not fit, targets are not one-hot, a value is not finite in fp16, the data are less
                than a batch, or a tensor is not an input of the network.
            GraphTypeError: An argument is not an array of numbers.
        """
        for tensor, what in ((x_input, "x_input"), (target_input, "target_input")):
            self.check_input(tensor, what)
        made = build_dataset(x_input, X, target_input, Y_onehot, whole(seed, OP, "seed", least=0))
        self.check_classes(made.arrays)
        self.run.dataset = made
        self.choose_scale()

    def step(self) -> float:
        """Run one step and update the parameters; return the loss of its mini-batches before the update.

        Raises:
            RuntimeStateError: An input has no data, or the trainer was released.
        """
        self.choose_scale()
        return self.run.step().loss

    def loss(self) -> float:
        """Return the loss of the last mini-batch with the present parameters; before the first step, of the first one.

        Raises:
            RuntimeStateError: An input has no data, or the trainer was released.
        """
        return self.run.loss()

    def accuracy(self, X: object, labels: object) -> float:  # noqa: N803 - the documented name
        """Return the share of rows whose largest logit is that of their label; the last batch is filled with zeros.

        Raises:
            NotSupportedError: The objective is not a classification.
            GraphError: Shapes do not fit, a label is out of range, or it is not clear which input X is for.
            GraphTypeError: The labels are not integers.
            RuntimeStateError: Another input has no data, or the trainer was released.
        """
        if not isinstance(self.objective, CrossEntropy):
            raise NotSupportedError(
                "only a classification has an accuracy",
                seen="a scalar loss",
                remedy="use af.softmax_cross_entropy, or compare outputs yourself",
            )
        place = self.evaluated_input()
        rows = check_rows(place, X, "X")
        wanted = check_labels(labels, len(rows), self.objective.result.shape[1])
        batch = place.shape[0]
        correct = 0
        for start in range(0, len(rows), batch):
            part = rows[start : start + batch]
            filled = np.zeros((batch, *rows.shape[1:]), rows.dtype)
            filled[: len(part)] = part
            logits = self.run.forward(self.run.feeds({place.node: filled}))[: len(part)]
            correct += int((logits.argmax(axis=1) == wanted[start : start + batch]).sum())
        return correct / len(rows)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a checkpoint: parameters, moments, counters, loss scale and the place in the order of mini-batches.

        The file (safetensors) appears whole or not at all, so that the last one stays where a run is interrupted.

        Raises:
            MissingPackageError: safetensors is not installed.
            OSError: The file cannot be written.
        """
        return write_checkpoint(path, self.run.snapshot())

    def load(self, path: str | os.PathLike[str]) -> None:
        """Go on from a checkpoint, with the bits that the run which wrote it would go on with.

        The network, the optimizer and the size of the data set must be those of that run; the target may be another.

        Raises:
            CheckpointError: The file is not a checkpoint, damaged, or of another network: the first difference is
                named, and nothing is changed.
            MissingPackageError: safetensors is not installed.
            OSError: The file cannot be read.
        """
        self.choose_scale()
        self.run.restore(read_checkpoint(path, self.run.snapshot()))

    def report(self) -> TrainingReport:
        """Return programs, layers, legality, bytes and predicted time of a step, and what is modelled."""
        return report_on(self.run, self.place)

    def compare(self, target: TargetLike, steps: int = 20) -> RunComparison:
        """Run the next steps on another target as well: the first step and tensor that differ, and by how much.

        Both runs go on from the present state with copies of everything; the trainer itself stays as it is.

        Raises:
            RuntimeStateError: An input has no data, or the trainer was released.
            AneforgeError: Whatever `compile` raises for the other target.
        """
        count = whole(steps, OP, "steps", least=1)
        self.choose_scale()
        twin = self.twin_on(place_of(target))
        try:
            return compare_runs(self.run.twin(self.programs), twin, count)
        finally:
            twin.release()

    def twin_on(self, place: Place) -> TrainingRun:
        """Return a run in the same state that goes on by itself on another target."""
        scale = self.optimizer.loss_scale if self.programs.scale is None else None
        if self.is_resident:
            return self.run.twin(build_resident_programs(self.objective, self.optimizer, scale, place, self.backend))
        twin = self.run.twin(build_programs(self.objective, self.parameters, scale, place, self.backend))
        twin.optimizer = twin.optimizer.for_target(place, self.backend)
        return twin

    def release(self) -> None:
        """Give back what the programs hold. A second time does nothing."""
        self.run.release()

    def __repr__(self) -> str:
        name, count = type(self.optimizer).__name__, len(self.parameters)
        return f"<Trainer on {self.target}: {name}, {count} parameters, {self.optimizer.steps} steps taken>"

    def choose_scale(self) -> None:
        """Choose the loss scale of "auto" from the next mini-batch, once there is one.

        It is halved after a step that is not finite, and grows back to what was chosen; with a resident state, whose
        gradients the host does not see, it stays.
        """
        if not self.scale_is_open:
            return
        data = {**self.run.fixed, **({} if self.run.dataset is None else self.run.dataset.last())}
        if any(one.node not in data for one in self.inputs):
            return
        given, most = {one: data[one.node] for one in self.inputs}, self.optimizer.gradient_limit
        masks = self.run.module_state.next_masks()
        advice = (
            advise_alone(self.objective, self.parameters, given, self.place, most)
            if self.is_resident  # its program gives no gradients
            else advise(self.objective, self.parameters, self.programs, self.run.feeds(data, masks), most)
        )
        chosen = advice.recommended
        self.optimizer.rescale(chosen)
        self.run.scaling = DynamicLossScale(first=chosen, least=chosen if self.is_resident else 1.0, most=chosen)
        self.scale_is_open = False
        self.warn_of_saturation()

    def warn_of_saturation(self) -> None:
        """Give the documented warning of trained convolutions, where it applies."""
        program = self.programs.step.model.program
        warn_of_saturation(program, self.objective, self.parameters, self.loss_scale)

    def check_fixed(self, given: object) -> dict[Node, Array]:
        """Return the values of inputs that stay the same, by node.

        Raises:
            GraphError: A tensor is not an input of the network, or a value does not fit it.
            GraphTypeError: They are not given by input.
        """
        if not isinstance(given, Mapping):
            raise GraphTypeError("data_inputs must be arrays by input", seen=type(given).__name__)
        found: dict[Node, Array] = {}
        for tensor, value in cast("Mapping[object, object]", given).items():
            place = self.check_input(tensor, "a key of data_inputs")
            array = check_values(value, "data_inputs")
            if array.shape != place.shape:
                raise GraphError(
                    "a value must have the shape of its input", seen=list(array.shape), limit=list(place.shape)
                )
            found[place.node] = array
        self.check_classes(found)
        return found

    def check_input(self, tensor: object, what: str) -> Tensor:
        """Return an input of the network that is not a parameter.

        Raises:
            GraphTypeError: It is not a tensor.
            GraphError: It is something else in the network, or not in it.
        """
        if not isinstance(tensor, Tensor):
            raise GraphTypeError(f"{what} must be a tensor of af.input", seen=type(tensor).__name__)
        if tensor.op != INPUT or tensor.node not in self.programs.step.graph.inputs.values():
            raise GraphError(
                f"{what} must be an input that the objective is computed from",
                seen=f"{tensor.op} of shape {list(tensor.shape)}",
                location=tensor.node.location,
            )
        if tensor.node in {one.node for one in self.parameters}:
            raise GraphError(
                f"{what} must not be a parameter", seen=list(tensor.shape), remedy="write to its value instead"
            )
        return tensor

    def check_classes(self, arrays: Mapping[Node, Array]) -> None:
        """Check the targets of a classification, and indices that a torch module takes.

        Raises:
            GraphError: A row does not have a single 1 among zeros, or an index is out of range.
        """
        if isinstance(self.objective, JointLoss):
            self.objective.check_data(arrays)
        if isinstance(self.objective, CrossEntropy) and self.objective.target.node in arrays:
            check_one_hot(arrays[self.objective.target.node])

    def evaluated_input(self) -> Tensor:
        """Return the input that the rows of an evaluation go into.

        Raises:
            GraphError: There are several that have no data otherwise.
        """
        assert isinstance(self.objective, CrossEntropy)  # noqa: S101 - nothing else is evaluated
        known = {one.node for one in self.parameters}
        inputs = [node for node in self.programs.forward.graph.inputs.values() if node not in known]
        drawn = () if self.run.dataset is None else self.run.dataset.arrays
        chosen = [node for node in inputs if node in drawn] or [node for node in inputs if node not in self.run.fixed]
        chosen = chosen or inputs
        if len(chosen) != 1:
            raise GraphError(
                "it must be clear which input X is for", seen=f"{len(chosen)} inputs", remedy="call set_dataset first"
            )
        return Tensor(chosen[0])


def check_labels(labels: object, rows: int, classes: int) -> Array:
    """Return labels.

    Raises:
        GraphTypeError: They are not integers.
        GraphError: There is not one for each row, or one is out of range.
    """
    array = as_array(labels, "accuracy", "labels")
    if array.dtype.kind not in "iu":
        raise GraphTypeError("labels must be integers", seen=str(array.dtype), remedy="use argmax of one-hot targets")
    if array.shape != (rows,) or not rows:
        raise GraphError("there must be one label for each row of X", seen=list(array.shape), limit=[rows])
    if array.min() < 0 or array.max() >= classes:
        raise GraphError("a label is out of range", seen=f"{array.min()} to {array.max()}", limit=f"0 to {classes - 1}")
    return array
