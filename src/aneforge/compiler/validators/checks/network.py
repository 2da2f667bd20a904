"""What the umbrella checks of a network as a whole. Its subject is the network: `NETWORK`, with attributes."""

from collections.abc import Iterator

from aneforge.compiler.validators.data import validators_file
from aneforge.compiler.validators.declare import layer_rule
from aneforge.rules.looking import integer
from aneforge.rules.rule import Relation, Seen
from aneforge.rules.subject import Subject


def version_numbers(version: str) -> tuple[int, ...]:
    """Return a version as numbers that can be compared.

    >>> version_numbers("1.0.10") > version_numbers("1.0.9")
    True
    """
    return tuple(int(part) for part in version.split("."))


@layer_rule("ANE-NETWORK-001", Relation.NEVER)
def newer_schema(subject: Subject) -> Iterator[Seen]:
    """The network description is of schema {seen}; the compiler reads up to {limit}.

    Remedy: write the description in the older schema.
    """
    version, known = str(subject.attributes["schema"]), validators_file().schema.version
    if version_numbers(version) > version_numbers(known):
        yield Seen(version, "schema", known)


@layer_rule("ANE-NETWORK-002", Relation.AT_MOST, "engines_per_die")
def bonded_network(subject: Subject) -> Iterator[Seen]:
    """The network is bonded over {seen} engines; {target} has {limit}.

    Remedy: compile it for one engine.
    """
    engines = integer(subject, "engines")
    if engines is not None and engines > 1:
        yield Seen(engines, "engines")


@layer_rule("ANE-NETWORK-003", Relation.NEVER)
def unit_names(subject: Subject) -> Iterator[Seen]:
    """Two units are called {seen}; there must be {limit}.

    Remedy: rename one of the layers.
    """
    names = subject.attributes["units"]
    seen: set[str] = set()
    for name in names if isinstance(names, tuple) else ():
        if str(name) in seen:
            yield Seen(str(name), "unit")
        seen.add(str(name))


@layer_rule("ANE-NETWORK-004", Relation.NEVER)
def conversion_records(subject: Subject) -> Iterator[Seen]:
    """Layer {seen} has no conversion record; there must be {limit}.

    Remedy: use a kind of layer of the catalogue, and enter a new kind among the validators' kinds.
    """
    names = subject.attributes["unconverted"]
    for name in names if isinstance(names, tuple) else ():
        yield Seen(str(name), "layer")
