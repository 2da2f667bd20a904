"""A compiled program: its matrices, checked when it is loaded, and its weights, checked when they are edited.

The subject is one matrix (`MATRIX`) or one edit (`WEIGHT_EDIT`), with attributes.
"""

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


@layer_rule("ANE-MUTABLE-001", Relation.NEVER)
def known_weight(subject: Subject) -> Iterator[Seen]:
    """There is no weight {seen} in the program; an edit names {limit}.

    Remedy: `program.constants` lists the symbols.
    """
    if subject.attributes["type"] is None:
        yield Seen(str(subject.attributes["symbol"]), "symbol")


@layer_rule("ANE-MUTABLE-002", Relation.NEVER)
def same_type(subject: Subject) -> Iterator[Seen]:
    """The new weight is {seen}, the old one {limit}.

    Remedy: give a weight of the same shape and element type; another one needs another program.
    """
    old, new = subject.attributes["type"], subject.attributes["new_type"]
    if old is not None and old != new:
        yield Seen(str(new), "type", str(old))


@layer_rule("ANE-MUTABLE-003", Relation.ONE_OF)
def plain_encoding(subject: Subject) -> Iterator[Seen]:
    """The {what} weight is encoded as {seen}; a weight that is edited is {limit}.

    Remedy: keep a weight that is to be edited dense.
    """
    for what in ("old", "new"):
        encoding = subject.attributes[f"{what}_encoding"]
        if encoding is not None:
            yield Seen(str(encoding), what)
