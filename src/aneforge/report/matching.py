"""Which operations of two reports are the same one.

By structure first: the operation, its type and shape, and all that it is computed from. What is left is matched by name
and operation, and then by its place among those that are left, so that a change near the inputs does not make
everything after it new.
"""

from __future__ import annotations

from collections import defaultdict
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from aneforge.report.model import Node

__all__ = ["match_nodes"]


def match_nodes(first: Sequence[Node], second: Sequence[Node]) -> Mapping[int, int]:
    """Return the number in the first report of every operation of the second that is the same.

    >>> from aneforge.report.model import Node
    >>> def chain(*names):
    ...     return [Node(name, "relu", "fp16", (4,), tuple(range(n - 1, n)) if n else (), None) for n, name in enumerate(names)]
    >>> match_nodes(chain("a", "b"), chain("c", "d"))
    {0: 0, 1: 1}
    """  # noqa: E501 - the example
    kinds = structures(first, second)
    found: dict[int, int] = {}
    pair_equal(found, range(len(first)), range(len(second)), lambda one: kinds[0][one], lambda one: kinds[1][one])
    left, right = find_unmatched(found, first, second)
    pair_equal(
        found,
        left,
        right,
        lambda one: (first[one].name, first[one].op),
        lambda one: (second[one].name, second[one].op),
    )
    left, right = find_unmatched(found, first, second)
    words = [plain_kind(first[one]) for one in left], [plain_kind(second[one]) for one in right]
    for block in SequenceMatcher(None, *words, autojunk=False).get_matching_blocks():
        for place in range(block.size):
            found[right[block.b + place]] = left[block.a + place]
    return found


def structures(first: Sequence[Node], second: Sequence[Node]) -> tuple[list[int], list[int]]:
    """Return a number for each operation; equal numbers mean the same computation from the same kinds of inputs."""
    numbers: dict[Hashable, int] = {}

    def of(nodes: Sequence[Node]) -> list[int]:
        made: list[int] = []
        for node in nodes:
            key = (*plain_kind(node), tuple(made[source] for source in node.inputs))
            made.append(numbers.setdefault(key, len(numbers)))
        return made

    return of(first), of(second)


def plain_kind(node: Node) -> tuple[str, str, tuple[int, ...]]:
    """Return what an operation is, without where it reads from."""
    return node.op, node.dtype, node.shape


def pair_equal(
    found: dict[int, int],
    left: Sequence[int],
    right: Sequence[int],
    left_key: Callable[[int], Hashable],
    right_key: Callable[[int], Hashable],
) -> None:
    """Pair operations of equal keys, in their order where several have one."""
    waiting: defaultdict[Hashable, list[int]] = defaultdict(list)
    for one in reversed(left):
        waiting[left_key(one)].append(one)
    for one in right:
        if waiting[right_key(one)]:
            found[one] = waiting[right_key(one)].pop()


def find_unmatched(
    found: Mapping[int, int], first: Sequence[Node], second: Sequence[Node]
) -> tuple[list[int], list[int]]:
    """Return the operations of either side that have no partner yet."""
    taken = set(found.values())
    return (
        [one for one in range(len(first)) if one not in taken],
        [one for one in range(len(second)) if one not in found],
    )
