"""Matrices of a compiled program, as they are checked when it is loaded. The subject is one matrix: `MATRIX`."""

from collections.abc import Iterator

from aneforge.compiler.validators.declare import layer_rule
from aneforge.rules.looking import integers
from aneforge.rules.rule import Relation, Seen
from aneforge.rules.subject import Subject


@layer_rule("ANE-LOAD-001", Relation.NEVER)
def has_planes(subject: Subject) -> Iterator[Seen]:
    """The matrix has {seen} planes; it must have {limit}.

    Remedy: compile the program again: the container is damaged.
    """
    if not integers(subject, "widths"):
        yield Seen(0, "planes")


@layer_rule("ANE-LOAD-002", Relation.NEVER)
def rows_hold_their_elements(subject: Subject) -> Iterator[Seen]:
    """A row of plane {what} has {seen} bytes; its elements take {limit}.

    Remedy: compile the program again: the container is damaged.
    """
    widths, bits, rows = (integers(subject, name) for name in ("widths", "bits", "row_bytes"))
    for plane, (width, one, given) in enumerate(zip(widths, bits, rows, strict=True)):
        needed = (width * one + 7) // 8
        if given < needed:
            yield Seen(given, str(plane), needed)


@layer_rule("ANE-LOAD-003", Relation.ONE_OF)
def tile_sides(subject: Subject) -> Iterator[Seen]:
    """A tile of a compressed plane is {seen} on a side, none of {limit}.

    Remedy: write the plane in one of these tiles.
    """
    for tile in integers(subject, "tiles"):
        if tile and subject.attributes["compressed"]:
            yield Seen(tile, "tile")


@layer_rule("ANE-LOAD-004", Relation.NEVER)
def tiles_are_compressed(subject: Subject) -> Iterator[Seen]:
    """An uncompressed plane has tiles of {seen}; it has {limit}.

    Remedy: compile the program again: the container is damaged.
    """
    for tile in integers(subject, "tiles"):
        if tile and not subject.attributes["compressed"]:
            yield Seen(tile, "tile")
