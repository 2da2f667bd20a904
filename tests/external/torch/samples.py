"""Calls of PyTorch's operators to judge: its own samples, and the calls of core ATen that those come down to.

`common_methods_invocations` lists operators with samples of their arguments. The samples of a form of core ATen are the
calls of it that PyTorch makes when it runs those of all operators through its decompositions, and the samples of the
operator of its own name that it takes as they are, or with a number for their last tensor. A form that has none of
either is judged by samples of our own.

Long lists are cut by rules that always take the same ones; `SAMPLES_MOST` and the numbers below it say how.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# PyTorch types a part of its functions alone.

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, cast

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from external.torch.own_samples import FIRST_RESULT, OWN_SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["Sample", "core_forms", "operation_names", "runs", "samples_of"]

SAMPLES_MOST = 64
"""Samples of one operator, or of one form, spread evenly over its list."""
HARVESTED_SAMPLES = 12
"""Samples of one operator that are run for the calls of core ATen that they make, spread in the same way."""
HARVESTED_EACH = 12
"""Different calls of one form that are taken from one operator."""
TYPES = (torch.float64, torch.int64, torch.bool, torch.float32)
"""The first of these that an operator takes is that of its samples."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One call of an operator: tensors to feed, and how to call it with them."""

    function: Callable[..., object]
    leaves: tuple[object, ...]
    structure: pytree.TreeSpec
    places: tuple[int, ...]
    """Which of the leaves are tensors."""

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors of the call."""
        return [cast("torch.Tensor", self.leaves[place]) for place in self.places]

    @property
    def signature(self) -> tuple[object, ...]:
        """What tells a call from another: shapes and element types of tensors, and everything else."""
        return tuple(
            (tuple(one.shape), one.dtype) if isinstance(one, torch.Tensor) else repr(one) for one in self.leaves
        )

    def call(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the tensors that the operator gives."""
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        arguments, named = cast(
            "tuple[tuple[object, ...], dict[str, object]]", pytree.tree_unflatten(leaves, self.structure)
        )
        found = pytree.tree_leaves(self.function(*arguments, **named))
        return [one for one in found if isinstance(one, torch.Tensor)]


def sample_made(function: Callable[..., object], arguments: object, named: object) -> Sample:
    """Return a sample, its tensors distinguished from its numbers."""
    leaves, structure = pytree.tree_flatten((tuple(cast("Sequence[object]", arguments)), named))
    tensors = tuple(place for place, one in enumerate(leaves) if isinstance(one, torch.Tensor))
    return Sample(function, tuple(leaves), structure, tensors)


def spread_evenly(listed: Sequence[Sample], most: int) -> list[Sample]:
    """Return at most so many of a list, the first of each of as many equal parts."""
    count = min(len(listed), most)
    return [listed[place * len(listed) // count] for place in range(count)]


# Operators.


@cache
def operation_names() -> tuple[str, ...]:
    """Return the name of every operator that has samples, its variant after a dot."""
    return tuple(dict.fromkeys(name_of(one) for one in op_db))


def name_of(operation: object) -> str:
    """Return the name of an entry with its variant."""
    name, variant = (str(getattr(operation, part)) for part in ("name", "variant_test_name"))
    return f"{name}.{variant}" if variant else name


def samples_of(name: str) -> list[Sample]:
    """Return the samples of an operator, or of a form of core ATen."""
    return spread_evenly(harvest().get(name, []) if name in core_forms() else listed_samples(name), SAMPLES_MOST)


def listed_samples(name: str) -> list[Sample]:
    """Return all samples of an operator as PyTorch lists them, in double precision where it takes that."""
    found: list[Sample] = []
    for operation in (one for one in op_db if name_of(one) == name):
        dtype = next((one for one in TYPES if one in operation.dtypes), None)
        if dtype is None:
            continue
        torch.manual_seed(0)
        found.extend(
            sample_made(operation.op, (sample.input, *sample.args), sample.kwargs)
            for sample in operation.sample_inputs("cpu", dtype, requires_grad=False)
        )
    return found


# Forms of core ATen.


@cache
def core_forms() -> dict[str, Callable[..., object]]:
    """Return every form of an operator that PyTorch calls core, by its name.

    The dispatcher names them all; `torch.ops` lists those alone that somebody asked for before.
    """
    found: dict[str, Callable[..., object]] = {}
    registered = torch._C._dispatch_get_all_op_names()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - there is no public list
    names = {name.removeprefix("aten::").split(".")[0] for name in registered if name.startswith("aten::")}
    for name in sorted(names):
        packet = getattr(torch.ops.aten, name, None)
        forms = [getattr(packet, form) for form in packet.overloads()] if packet is not None else []
        found.update((str(form), form) for form in forms if torch.Tag.core in form.tags)
    return found


@cache
def decompositions() -> dict[object, Callable[..., object]]:
    """Return PyTorch's own table of what an operator is made of."""
    return cast("dict[object, Callable[..., object]]", torch.export.default_decompositions())


class Listening(TorchDispatchMode):
    """Takes operators apart down to core ATen while they run, and keeps the calls that are made of it."""

    def __init__(self) -> None:
        super().__init__()
        self.forms = set(core_forms().values())
        self.table = decompositions()
        self.heard: list[Sample] = []

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Run an operator."""
        named = kwargs or {}
        if func in self.forms:
            self.heard.append(copied(sample_made(func, args, named)))
        elif func in self.table:
            with self:
                result = self.table[func](*args, **named)
            if result is not NotImplemented:
                return result
        return func(*args, **named)


def copied(sample: Sample) -> Sample:
    """Return a call with tensors of its own: what runs on may write the others."""
    leaves = tuple(one.detach().clone() if isinstance(one, torch.Tensor) else one for one in sample.leaves)
    return Sample(sample.function, leaves, sample.structure, sample.places)


@cache
def harvest() -> dict[str, list[Sample]]:
    """Return the samples of all forms of core ATen, by their names."""
    found: dict[str, dict[tuple[object, ...], Sample]] = {name: {} for name in core_forms()}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # samples of deprecated forms
        for name in operation_names():
            taken: Counter[str] = Counter()
            listed = spread_evenly(listed_samples(name), HARVESTED_SAMPLES)
            for sample in (*own_forms(name, listed), *heard_from(listed)):
                form = str(sample.function)
                if sample.signature not in found[form] and taken[form] < HARVESTED_EACH:
                    taken[form] += 1
                    found[form][sample.signature] = sample
    return {name: list(samples.values()) or own_samples(name) for name, samples in found.items()}


def own_samples(name: str) -> list[Sample]:
    """Return the samples of our own of a form that PyTorch has none of."""
    torch.manual_seed(0)
    form, listed = core_forms()[name], OWN_SAMPLES[name]() if name in OWN_SAMPLES else []
    function = first_of(form) if name in FIRST_RESULT else form
    writes = name.endswith(".out")
    return [sample_made(function, one, {"out": room_for(one)} if writes else {}) for one in listed]


def first_of(form: Callable[..., object]) -> Callable[..., object]:
    """Return an operator of which the first result alone is looked at."""
    return lambda *arguments: cast("tuple[object, ...]", form(*arguments))[0]


def room_for(arguments: tuple[object, ...]) -> torch.Tensor:
    """Return a tensor for an operator to write its result to."""
    tensors = [one for one in arguments if isinstance(one, torch.Tensor)]
    return torch.zeros(torch.broadcast_shapes(*(one.shape for one in tensors)), dtype=tensors[0].dtype)


def heard_from(samples: Sequence[Sample]) -> Iterator[Sample]:
    """Return the calls of core ATen that samples come down to."""
    for sample in samples:
        with Listening() as listening:
            try:
                sample.call([one.clone() for one in sample.tensors])
            except Exception:  # noqa: BLE001, S112 - what PyTorch cannot take apart with data makes no calls
                continue
        yield from listening.heard


def own_forms(name: str, samples: Sequence[Sample]) -> Iterator[Sample]:
    """Return samples of an operator as calls of the forms of its own name that take them as they are."""
    own = name.partition(".")[0] if not name.startswith("nn.") else name.rpartition(".")[2]
    for form in (one for one in core_forms().values() if str(one).split(".")[1] == own):
        direct = [Sample(form, one.leaves, one.structure, one.places) for one in samples]
        fitting = [one for one in direct if runs(one)]
        yield from fitting or (one for one in map(with_number, direct) if runs(one))


def with_number(sample: Sample) -> Sample:
    """Return a call with a number in place of its last tensor: the first element, for forms that take a number."""
    place = sample.places[-1] if sample.places else 0
    last = sample.leaves[place] if sample.leaves else None
    if not isinstance(last, torch.Tensor) or not last.numel():
        return sample
    leaves = (*sample.leaves[:place], last.flatten()[0].item(), *sample.leaves[place + 1 :])
    return Sample(sample.function, leaves, sample.structure, sample.places[:-1])


def runs(sample: Sample) -> bool:
    """Return whether a call runs with its own tensors: others do not fit, or read the memory around their tensors."""
    try:
        sample.call([tensor.clone() for tensor in sample.tensors])
    except Exception:  # noqa: BLE001 - whatever PyTorch raises, it does not take the call
        return False
    return True
