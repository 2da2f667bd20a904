"""Weights that are edited in a compiled program. The subject is one edit: `WEIGHT_EDIT`, with attributes."""

from collections.abc import Iterator

from aneforge.compiler.validators.declare import layer_rule
from aneforge.rules.rule import Relation, Seen
from aneforge.rules.subject import Subject


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
