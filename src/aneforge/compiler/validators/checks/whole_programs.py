"""Programs: what the umbrella checks of a network as a whole, and compiled programs and their containers.

The subject is the network (`NETWORK`), a matrix that is checked when a program is loaded (`MATRIX`), an edit of a
weight (`WEIGHT_EDIT`), a container (`CONTAINER`) or one of its ports (`CONTAINER_PORT`), with attributes.
"""

from collections.abc import Iterator

from aneforge.compiler.validators.data import validators_file
from aneforge.compiler.validators.declare import layer_rule
from aneforge.rules.looking import integer, integers, text, texts
from aneforge.rules.rule import Relation, Seen, Severity
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
    version, known = text(subject, "schema"), validators_file().schema.version
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
    seen: set[str] = set()
    for name in texts(subject, "units"):
        if name in seen:
            yield Seen(name, "unit")
        seen.add(name)


@layer_rule("ANE-NETWORK-004", Relation.NEVER)
def conversion_records(subject: Subject) -> Iterator[Seen]:
    """Layer {seen} has no conversion record; there must be {limit}.

    Remedy: use a kind of layer of the catalogue, and enter a new kind among the validators' kinds.
    """
    for name in texts(subject, "unconverted"):
        yield Seen(name, "layer")


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
    """A tile of a compressed plane is {seen} on a side; it must be one of {limit}.

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
    """The program has no weight {seen}; an edit must name {limit}.

    Remedy: `program.constants` lists the symbols.
    """
    if subject.attributes["type"] is None:
        yield Seen(text(subject, "symbol"), "symbol")


@layer_rule("ANE-MUTABLE-002", Relation.NEVER)
def same_type(subject: Subject) -> Iterator[Seen]:
    """The new weight is {seen}, the old one {limit}.

    Remedy: give a weight of the same shape and element type; any other weight needs another program.
    """
    old, new = subject.attributes["type"], subject.attributes["new_type"]
    if old is not None and old != new:
        yield Seen(str(new), "type", str(old))


@layer_rule("ANE-MUTABLE-003", Relation.ONE_OF)
def plain_encoding(subject: Subject) -> Iterator[Seen]:
    """The {what} weight is encoded as {seen}; a weight that is edited must be {limit}.

    Remedy: leave weights that will be edited dense.
    """
    for what in ("old", "new"):
        encoding = subject.attributes[f"{what}_encoding"]
        if encoding is not None:
            yield Seen(str(encoding), what)


PAGE = 0x4000
STRIDE = 64


def words(subject: Subject, name: str) -> tuple[str, ...]:
    """Return an attribute that is a list of texts."""
    value = subject.attributes[name]
    return tuple(str(one) for one in value) if isinstance(value, tuple) else ()


@layer_rule("ANE-LOAD-005", Relation.NEVER, severity=Severity.WARN)
def every_byte_has_a_command(subject: Subject) -> Iterator[Seen]:
    """The file has non-zero bytes at {seen} that belong to no command; expected {limit}.

    Remedy: look at them with a hex editor; they are kept when the file is written.
    """
    for place in integers(subject, "strays"):
        yield Seen(f"{place:#x}", "file")


@layer_rule("ANE-LOAD-006", Relation.NEVER, severity=Severity.WARN)
def every_word_has_a_meaning(subject: Subject) -> Iterator[Seen]:
    """{seen} has no known meaning; expected {limit}.

    Remedy: compare with a file that the same compiler made; the words are kept when the file is written.
    """
    for one in words(subject, "unnamed"):
        yield Seen(one, "command")


@layer_rule("ANE-LOAD-007", Relation.NEVER)
def program_begins_with_its_tasks(subject: Subject) -> Iterator[Seen]:
    """The program begins at {seen}, its task section at {limit}.

    Remedy: compile the program again: the container is damaged.
    """
    given, text = integer(subject, "program_address"), integer(subject, "text_address")
    if given is not None and text is not None and given != text:
        yield Seen(f"{given:#x}", "program", f"{text:#x}")


@layer_rule("ANE-LOAD-008", Relation.NEVER)
def bases_are_within_segments(subject: Subject) -> Iterator[Seen]:
    """Base register {what} holds {seen}, which is in no segment; expected {limit}.

    Remedy: compile the program again: the container is damaged.
    """
    starts, ends = integers(subject, "segment_starts"), integers(subject, "segment_ends")
    for index, address in zip(integers(subject, "base_indices"), integers(subject, "base_addresses"), strict=True):
        if not any(start <= address < end for start, end in zip(starts, ends, strict=True)):
            yield Seen(f"{address:#x}", str(index))


@layer_rule("ANE-LOAD-009", Relation.NEVER)
def segments_are_on_pages(subject: Subject) -> Iterator[Seen]:
    """A segment begins at {seen} of the {what}; expected {limit}.

    Remedy: compile the program again: the container is damaged.
    """
    for what, name in (("addresses", "segment_starts"), ("file", "segment_offsets")):
        for place in integers(subject, name):
            if place % PAGE:
                yield Seen(f"{place:#x}", what)


@layer_rule("ANE-LOAD-010", Relation.NEVER)
def relocated_words_point_into_their_section(subject: Subject) -> Iterator[Seen]:
    """The relocated word at {what} of the task section holds {seen}; expected {limit}.

    Remedy: compile the program again: the container is damaged.
    """
    entries = (integers(subject, name) for name in ("relocation_places", "relocation_values", "relocation_sizes"))
    for place, value, size in zip(*entries, strict=True):
        if not 0 <= value < size:
            yield Seen(f"{value:#x}" if value >= 0 else "nothing", f"{place:#x}")


@layer_rule("ANE-LOAD-011", Relation.NEVER)
def tasks_can_be_listed(subject: Subject) -> Iterator[Seen]:
    """The tasks cannot be listed: {seen}; expected {limit}.

    Remedy: compile the program again: the container is damaged.
    """
    error = text(subject, "task_error")
    if error:
        yield Seen(error, "tasks")


@layer_rule("ANE-LOAD-012", Relation.NEVER, severity=Severity.WARN)
def events_are_counted(subject: Subject) -> Iterator[Seen]:
    """The program states {seen} {what}, its tasks set {limit}.

    Remedy: set the count to the number of bits that the masks of all tasks have.
    """
    for what in ("log events", "debug events"):
        stated, counted = integer(subject, f"stated {what}"), integer(subject, f"counted {what}")
        if stated is not None and counted is not None and stated != counted:
            yield Seen(stated, what, counted)


@layer_rule("ANE-LOAD-013", Relation.NEVER)
def ports_have_a_base_register(subject: Subject) -> Iterator[Seen]:
    """No base register holds the address {seen} of the port; expected {limit}.

    Remedy: compile the program again: no task can reach the port.
    """
    if subject.attributes["base"] is None:
        yield Seen(f"{integer(subject, 'address'):#x}", "port")


@layer_rule("ANE-LOAD-014", Relation.NEVER)
def strides_are_whole_lines(subject: Subject) -> Iterator[Seen]:
    """The {what} stride of the port is {seen} bytes; expected {limit}.

    Remedy: pad rows to the next multiple.
    """
    for what, stride in zip(("batch", "channel", "row"), integers(subject, "strides"), strict=False):
        if stride % STRIDE:
            yield Seen(stride, what)


@layer_rule("ANE-LOAD-015", Relation.NEVER)
def ports_fit_their_segments(subject: Subject) -> Iterator[Seen]:
    """The port takes {seen} bytes, its segment has {limit}.

    Remedy: compile the program again: the container is damaged.
    """
    extent, room = integer(subject, "extent"), integer(subject, "room")
    if extent is not None and room is not None and extent > room:
        yield Seen(extent, "port", room)
