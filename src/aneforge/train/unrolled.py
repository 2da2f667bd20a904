"""`UnrolledTrainer`: several steps of Adam in one program, each from the parameters that the one before it made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.errors import GraphError, GraphTypeError
from aneforge.graph.builder.arguments import expect_tensor
from aneforge.graph.builder.inputs import input as build_input
from aneforge.graph.gradients import backward, backward_from
from aneforge.graph.graph import INPUT
from aneforge.graph.methods.method_arguments import whole
from aneforge.graph.tensor import Tensor
from aneforge.targets import place_of
from aneforge.train.adam_in_graph import GRADIENT_LIMITS, adam_step, check_form, correct_rate
from aneforge.train.batches import Dataset, build_dataset, check_one_hot, check_rows
from aneforge.train.checkpoints import Header, Snapshot, network_lines, read_checkpoint, write_checkpoint
from aneforge.train.device_optimisers import rate_in_fp16, warn_of_moments
from aneforge.train.interrupts import hold_interrupts
from aneforge.train.loss_scale import scale_on_engine
from aneforge.train.objectives import CrossEntropy, ScalarLoss, mse, softmax_cross_entropy
from aneforge.train.optimisers import Rate, check_betas, check_params, check_rate, rate_at
from aneforge.train.resident_program import PassedStates, ResidentProgram, compile_with_states, warn_of_states
from aneforge.train.run_comparison import label_of
from aneforge.train.saturation_guard import warn_of_saturation
from aneforge.train.scale_advice import advise_alone
from aneforge.train.step_programs import compile_forward

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from aneforge.graph.node import Node
    from aneforge.ops.types import Array
    from aneforge.runtime.backends import Backend
    from aneforge.targets import Place, TargetLike
    from aneforge.train.parameter import Parameter

__all__ = ["UnrolledTrainer"]

OP = "UnrolledTrainer"
Forward = Callable[[list[Tensor], Tensor], Tensor]
KINDS = ("ce", "mse")


class UnrolledTrainer:
    """Trains by K steps of Adam in one program, K the number of inputs; weights and moments are fp16 on the engine.

    `forward(P, x)` gives the logits, or the output, from parameters and an input; it is called once for each step.
    `kind` is "ce", the cross-entropy with one-hot targets, or "mse". `dataset` is a pair of arrays, X and targets. With
    `resident`, states stay in buffers that inputs and outputs of the program share; without, the host passes them on.
    `form` is the update: "documented", or "fp16", whose moments fp16 can hold. `loss_scale` is a number, or "auto",
    which takes what `loss_scale_advice` recommends for the first mini-batch.

    >>> import numpy as np
    >>> import aneforge as af
    >>> w = af.parameter(np.zeros((2, 1)))
    >>> X = np.array([[0, 1], [1, 0], [1, 1], [1, -1]])
    >>> inputs, targets = [af.input((4, 2)) for _ in range(3)], [af.input((4, 1)) for _ in range(3)]
    >>> data = X, X @ [[1.0], [2.0]]
    >>> family = af.targets.Family.A16
    >>> trainer = af.UnrolledTrainer([w], lambda P, x: x @ P[0], "mse", inputs, targets, data, lr=0.2, target=family)
    >>> losses = [trainer.step() for _ in range(20)]
    >>> losses[-1] < 0.1, trainer.steps, trainer.predict(X).shape
    (True, 60, (4, 1))

    Raises:
        GraphError: The kind is not known, shapes do not fit, or a number is out of its range.
        GraphTypeError: An argument has the wrong type.
        AneforgeError: Whatever `backward` and `compile` raise.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the documented signature
        self,
        params: Sequence[Parameter],
        forward: Forward,
        kind: str,
        x_inputs: Sequence[Tensor],
        t_inputs: Sequence[Tensor],
        dataset: tuple[object, object],
        lr: Rate = 1e-3,
        loss_scale: float | str = 1.0,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        seed: int = 0,
        resident: bool = True,  # noqa: FBT001, FBT002 - as above
        *,
        form: str = "documented",
        target: TargetLike = None,
        backend: str | Backend | None = None,
    ) -> None:
        if kind not in KINDS:
            raise GraphError("kind must be 'ce' or 'mse'", seen=repr(kind), remedy="use Trainer for another loss")
        self.params = check_params(params)
        if not callable(forward):  # pyright: ignore[reportUnnecessaryComparison] - callers may be untyped
            raise GraphTypeError("forward must be a function of parameters and an input", seen=repr(forward))
        self.kind, self.lr, self.betas, self.form = kind, check_rate(lr), check_betas(betas), check_form(form)
        self.warned = False
        """True when moments that fp16 does not hold were warned of."""
        scale = scale_on_engine(loss_scale)
        self.inputs, self.targets = check_inputs(x_inputs, t_inputs)
        self.dataset = self.check_dataset(dataset, whole(seed, OP, "seed", least=0))
        place = place_of(target)
        first_step = self.objective(forward, self.params, self.inputs[0], self.targets[0])
        self.loss_scale = self.advised_scale(first_step, place) if scale is None else scale
        first_step.check_scale(self.loss_scale)
        self.steps = 0
        """Steps that were taken, K for each call."""
        self.rates = [build_input((1, 1)) for _ in self.inputs]
        first = [build_input(one.shape) for one in self.params]
        second = [build_input(one.shape) for one in self.params]
        states = [*self.params, *first, *second]
        updated, self.objectives = self.unrolled(forward, first, second, eps)
        results = {f"result{number}": one.result for number, one in enumerate(self.objectives)}
        self.program = compile_with_states(f"{len(self.inputs)} steps", results, updated, place, backend)
        warn_of_saturation(self.program.model.program, first_step, self.params, self.loss_scale)
        self.forward = compile_forward("output", forward(list(self.params), self.inputs[0]), place, backend)
        keep = ResidentProgram if resident else PassedStates
        zeros = [np.zeros(one.shape, np.float16) for one in (*first, *second)]
        self.states = keep(self.program, [one.node for one in states], [*(one.value for one in self.params), *zeros])

    def unrolled(
        self, forward: Forward, first: list[Tensor], second: list[Tensor], eps: float
    ) -> tuple[list[Tensor], list[ScalarLoss | CrossEntropy]]:
        """Return all states after K steps, and what each step minimises."""
        weights: list[Tensor] = list(self.params)
        objectives: list[ScalarLoss | CrossEntropy] = []
        for x, t, rate in zip(self.inputs, self.targets, self.rates, strict=True):
            one = self.objective(forward, weights, x, t)
            found = self.gradients(one, weights)
            weights, first, second = adam_step(weights, first, second, found, rate, self.betas, eps, form=self.form)
            objectives.append(one)
        return [*weights, *first, *second], objectives

    def objective(self, forward: Forward, weights: Sequence[Tensor], x: Tensor, t: Tensor) -> ScalarLoss | CrossEntropy:
        """Return what a step minimises."""
        output = expect_tensor(forward(list(weights), x), OP, "forward(P, x)")
        return softmax_cross_entropy(output, t) if self.kind == "ce" else ScalarLoss(mse(output, t))

    def advised_scale(self, objective: ScalarLoss | CrossEntropy, place: Place) -> float:
        """Return the loss scale that the first mini-batch and the form of the update ask for."""
        rows = self.dataset.last()
        data = {one: rows[one.node] for one in (self.inputs[0], self.targets[0])}
        return advise_alone(objective, self.params, data, place, GRADIENT_LIMITS[self.form]).recommended

    def gradients(self, objective: ScalarLoss | CrossEntropy, weights: list[Tensor]) -> list[Tensor]:
        """Return the gradients at the weights of one step, and no further: the step before made them."""
        if isinstance(objective, ScalarLoss):
            found = backward(objective.result, weights, self.loss_scale, stop=weights)
        else:
            scale = self.loss_scale / objective.result.shape[0]
            seed = (objective.result.softmax() - objective.target) * scale
            found = backward_from(seed, objective.result, weights, stop=weights)
        return [found[one] for one in weights]

    def check_dataset(self, dataset: object, seed: int) -> Dataset:
        """Return the data for the first pair of inputs; the others have the same shape.

        Raises:
            GraphTypeError: It is not a pair.
            GraphError: Shapes do not fit, targets are not one-hot, or the data are less than a batch.
        """
        if not isinstance(dataset, tuple | list) or len(cast("Sequence[object]", dataset)) != 2:
            raise GraphTypeError(
                "dataset must be a pair of arrays, X and targets", seen=type(cast("object", dataset)).__name__
            )
        rows, wanted = cast("Sequence[object]", dataset)
        made = build_dataset(self.inputs[0], rows, self.targets[0], wanted, seed)
        if self.kind == "ce":
            check_one_hot(made.arrays[self.targets[0].node])
        return made

    @property
    def target(self) -> str:
        """The name of the target that the programs were compiled for."""
        return self.program.model.target

    def step(self) -> float:
        """Run K steps, each on a mini-batch of its own; return the mean of their losses before their updates.

        Ctrl-C waits until all of them are done.

        Raises:
            RuntimeStateError: The trainer was released.
        """
        with hold_interrupts():
            return self.step_once()

    def step_once(self) -> float:
        """Run K steps."""
        feeds = self.fed_rates()  # a schedule may fail, and then nothing was drawn
        for x, t in zip(self.inputs, self.targets, strict=True):
            drawn = self.dataset.draw()
            feeds[x.node], feeds[t.node] = drawn[self.inputs[0].node], drawn[self.targets[0].node]
        found = self.states.run(feeds)
        self.steps += len(self.inputs)
        losses = [one.loss_of(found[f"result{number}"], feeds) for number, one in enumerate(self.objectives)]
        return sum(losses) / len(losses)

    def fed_rates(self) -> dict[Node, Array]:
        """Return the rates of the next K steps, with both corrections.

        Raises:
            GraphError: A schedule gives something that is not a rate, or fp16 does not hold one.
        """
        found: dict[Node, Array] = {}
        for number, place in enumerate(self.rates, start=self.steps + 1):
            rate = correct_rate(rate_at(self.lr, number), number, self.betas)
            found[place.node] = rate_in_fp16(rate, is_scheduled=callable(self.lr))
        return found

    def read_back(self) -> None:
        """Read the parameters' values from the engine; warn of what is not finite or, of moments, not held by fp16."""
        states, count = self.states.read(), len(self.params)
        values, first, second = states[:count], states[count : 2 * count], states[2 * count :]
        for one, value in zip(self.params, values, strict=True):
            np.copyto(one.value, value)
        labels = [label_of(self.params, place) for place in range(count)]
        warn_of_states(labels, values)
        for label, *moments in zip(labels, first, second, strict=True):
            if self.form == "documented" and not self.warned:
                self.warned = warn_of_moments(label, moments[0], moments[1], self.betas)

    def predict(self, X: object) -> Array:  # noqa: N803 - the documented name
        """Return what `forward` gives for rows of any number, with the present parameters; the last batch is filled up.

        Raises:
            GraphError: Shapes do not fit, or the rows of an output are not those of the input.
            RuntimeStateError: The trainer was released.
        """
        self.read_back()
        rows = check_rows(self.inputs[0], X, "X")
        batch = self.inputs[0].shape[0]
        feeds = {one.node: one.value for one in self.params}
        parts: list[Array] = []
        for start in range(0, len(rows), batch):
            part = rows[start : start + batch]
            filled = np.zeros((batch, *rows.shape[1:]), rows.dtype)
            filled[: len(part)] = part
            parts.append(self.forward.run({**feeds, self.inputs[0].node: filled})["output"][: len(part)])
        return np.concatenate(parts)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a checkpoint, as `Trainer.save` does.

        Raises:
            MissingPackageError: safetensors is not installed.
            OSError: The file cannot be written.
        """
        return write_checkpoint(path, self.snapshot())

    def load(self, path: str | os.PathLike[str]) -> None:
        """Go on from a checkpoint, with the bits that the run which wrote it would go on with.

        Raises:
            CheckpointError: The file is not a checkpoint, damaged, or of another network.
            MissingPackageError: safetensors is not installed.
            OSError: The file cannot be read.
        """
        here = self.snapshot()
        state = read_checkpoint(path, here)
        with hold_interrupts():
            if state.header.order is not None:
                self.dataset.go_to(state.header.order, state.tensors)
            self.states.write([state.tensors[name] for name in self.state_names()])
            self.steps = int(state.header.numbers["steps"])

    def snapshot(self) -> Snapshot:
        """Return the state of the run."""
        header = Header(
            network=network_lines(self.program.graph),
            optimizer=OP,
            numbers={"loss_scale": self.loss_scale, "steps": self.steps},
            order=self.dataset.batches.place(),
        )
        tensors = dict(zip(self.state_names(), self.states.read(), strict=True))
        return Snapshot(header, {**tensors, **self.dataset.rows_to_come()})

    def state_names(self) -> list[str]:
        """Return the names of all states in a checkpoint."""
        labels = [f"{place}.{label_of(self.params, place)}" for place in range(len(self.params))]
        return [f"{kind}.{label}" for kind in ("parameter", "first", "second") for label in labels]

    def release(self) -> None:
        """Give back what the programs hold. A second time does nothing."""
        self.program.model.release()
        self.forward.model.release()

    def __repr__(self) -> str:
        return f"<UnrolledTrainer on {self.target}: {len(self.inputs)} steps in a program, {self.steps} steps taken>"


def check_inputs(x_inputs: object, t_inputs: object) -> tuple[list[Tensor], list[Tensor]]:
    """Return the inputs and targets of every step.

    Raises:
        GraphError: There are none, not equally many, or of several shapes.
        GraphTypeError: An argument is not an input.
    """
    found: list[list[Tensor]] = []
    for given, what in ((x_inputs, "x_inputs"), (t_inputs, "t_inputs")):
        if not isinstance(given, list | tuple) or not given:
            raise GraphTypeError(
                f"{what} must be a list of inputs, one for each step", seen=type(cast("object", given)).__name__
            )
        listed = [expect_tensor(one, OP, what) for one in cast("Sequence[object]", given)]
        if any(one.op != INPUT or one.shape != listed[0].shape for one in listed):
            raise GraphError(f"{what} must be inputs of one shape", seen=[list(one.shape) for one in listed])
        found.append(listed)
    if len({one.node for one in (*found[0], *found[1])}) < len(found[0]) + len(found[1]):
        raise GraphError(
            "every step needs an input and a target of its own",
            seen="one that is listed twice",
            remedy="make one with af.input for each step",
        )
    if len(found[0]) != len(found[1]):
        raise GraphError("every step needs an input and a target", seen=f"{len(found[0])} and {len(found[1])}")
    return found[0], found[1]
