"""`explain`: what is known of a rule, field, operation, target, pass, route, conflict, of chaining, or of a word."""

from __future__ import annotations

import pkgutil
import re
from typing import TYPE_CHECKING

from aneforge.commands.explanation import Explanation, Row, source_links, thread_link, with_sources
from aneforge.errors import NoDataError, UnknownNameError, UnknownTargetError
from aneforge.report.glossary import find_term, spellings
from aneforge.report.predicted import PREDICTED
from aneforge.rules.catalogue import rules
from aneforge.rules.rule import plain_text
from aneforge.targets import database, group, place_of, resolve
from aneforge.targets.names import FAMILY_PREFIX, title_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from aneforge.rules.rule import Rule
    from aneforge.targets import Property

__all__ = ["KINDS", "Explanation", "Row", "explain"]

KINDS = (
    "ANE-… (a rule), hal FIELD or OFFSET, limit NAME, op NAME, target NAME, pass NAME, route NAME, chaining, chaining "
    "NAME, C…, S… or T… (a conflict between sources), or any word that is printed: a chip, a target, an operation by "
    "our name or that of ONNX, PyTorch or MIL, a hardware field, a validator, a message of Apple's compiler, a source, "
    "a label"
)

ID = re.compile(r"ANE-|MIL-|[CST]\d")
"""How ids of rules and conflicts begin; any other single word is looked for in the glossary."""


def explain(words: Sequence[str]) -> Explanation:
    """Return what is known of a rule, a conflict or a word of the glossary, or of what two words name: `op softplus`.

    >>> explain(["ANE-EXTENT-001"]).rows[0].label
    'remedy'
    >>> explain(["op", "relu"]).summary != ""
    True

    Raises:
        UnknownNameError: The name is unknown; the nearest ones are listed.
    """
    return with_sources(explained([word.strip() for word in words]))


def explained(asked: Sequence[str]) -> Explanation:  # noqa: PLR0911 - one for each kind
    """Return what is known, without the sources of its evidence."""
    if find_term(" ".join(asked)) is not None:
        return explain_term(" ".join(asked))
    match asked:
        case ["chaining", *names] if len(names) <= 1:
            return explained_chaining(*names)
        case [name] if not ID.match(name.upper()) and (found := explain_name(name)) is not None:
            return found
        case [name] | ["rule" | "conflict", name]:
            return explain_id(name.upper(), name)
        case ["hal" | "limit" | "datapath" | "geometry" as kind, name]:
            return explain_property(kind, name)
        case [("op" | "target" | "chip" | "pass" | "route") as kind, name]:
            return NAMED[kind](name)
        case ["validator", name] if (found := explain_known_validator(name)) is not None:
            return found
        case other if (found := explain_name(" ".join(other))) is not None:
            return found
        case other:
            raise UnknownNameError(f"cannot explain {' '.join(other)!r}; what can be explained: {KINDS}")


def explain_name(name: str) -> Explanation | None:
    """Return what is known of a hardware field, a chip, a target, an operation, a pass, a route or a validator.

    None where nothing of these has the name; what a bare name may be is looked for in this order, so that modules
    which only the later ones need are loaded when it comes to them.
    """
    key = name.casefold()
    properties = ("hal", "limit", "datapath", "geometry")
    if key.startswith("0x"):
        return explain_property("hal", name)
    field = database().aliases.get(name) or database().aliases.get(key, key)
    for kind in properties:
        if field in property_table(kind):
            return explain_property(kind, field)
    if (place := explain_place(name)) is not None:
        return place
    from aneforge.commands import explained_names as known  # noqa: PLC0415 - not needed for what comes before

    if (ours := known.operation_name(key)) is not None:
        return known.explain_op(ours)
    others = (known.explain_operator, explain_step, known.explain_validator, known.explain_apple_text, explain_source)
    return next((found for explain_one in others if (found := explain_one(name)) is not None), None)


def explain_place(name: str) -> Explanation | None:
    """Return a chip, a device, a target or a family, with the word family after it too; None for anything else."""
    family, _, word = name.rpartition(" ")
    name = f"{FAMILY_PREFIX}{family}" if word.casefold() == "family" else name
    try:
        place = place_of(name)
    except UnknownTargetError:
        return None
    found = explain_target(name)
    if name.casefold().startswith(FAMILY_PREFIX):
        return explain_family(name.removeprefix(FAMILY_PREFIX), found)
    if place.chip is None:
        return found
    summary = f"{place.chip.name} is the target {found.name}: {found.summary}"
    return Explanation("chip", place.chip.name, summary, (Row("target", found.name), *found.rows))


def explain_family(name: str, standing: Explanation) -> Explanation:
    """Return a family: its targets, their chips, and the facts of the target that stands for it."""
    target = resolve(standing.name)
    documented = target.family is not None and target.family.name.casefold() == name.casefold()
    members = [
        one for one in database().targets.values()
        if (one.family is target.family if documented else one.tier is target.tier) and one.kind is target.kind
    ]  # fmt: skip
    chips = ", ".join(title for one in members if (title := title_of(one)))
    rows = (Row("targets", ", ".join(one.name for one in members)), Row("chips", chips or "not known"))
    summary = f"A generation of the engine. Where a command takes one target for it, that is {target.name}."
    facts = (row for row in standing.rows if "." in row.label)
    return Explanation("family", f"{name.upper()} family", summary, (*rows, *facts))


def explain_source(name: str) -> Explanation | None:
    """Return a source as evidence names it, with or without the place in it; None for anything else.

    >>> found = explain_source("guide ch. 4")
    >>> found.kind, found.name, found.rows[0].value.startswith("https://")
    ('source', 'guide', True)
    """
    key = name.casefold().partition(" ")[0]
    if key not in database().sources:
        return None
    source = database().sources[key]
    rows = [Row("where", source_links(source.where))] + ([Row("note", source.note)] if source.note else [])
    return Explanation("source", key, f"{source.title}.", tuple(rows))


def explain_step(name: str) -> Explanation | None:
    """Return a pass of the compiler or a route by its name only; None for anything else.

    A pass has a file of its name, so that nothing of the compiler is loaded to find that a name is none.
    """
    from aneforge.analysis.routes import routes  # noqa: PLC0415 - few explanations need it
    from aneforge.compiler import passes  # noqa: PLC0415 - as above

    if name in (form for one in routes() for form in (one.name, *one.also)):
        return explain_route(name)
    if name.replace("-", "_") not in (file.name for file in pkgutil.iter_modules(passes.__path__)):
        return None
    from aneforge.compiler.pipeline import PIPELINE  # noqa: PLC0415 - as above

    return explain_pass(name) if name in (one.name for one in PIPELINE.passes) else None


def explain_term(word: str) -> Explanation:
    """Return what a word means that we print.

    Raises:
        UnknownNameError: The glossary does not have it.
    """
    found = find_term(word)
    if found is None:
        raise UnknownNameError.of("word", word, every_name(), remedy=f"what can be explained: {KINDS}")
    name, term = found
    rows = [Row("also", ", ".join(term.also))] if term.also else []
    rows += [Row("see", page_path(term.see))] if term.see else []
    return Explanation("term", name, term.text, tuple(rows))


def every_name() -> Iterator[str]:
    """Yield every name that can be explained by itself."""
    from aneforge.commands.explained_names import foreign_names, mil_names  # noqa: PLC0415 - only for unknown names
    from aneforge.ops.table import names  # noqa: PLC0415 - as above

    yield from spellings()
    yield from (*database().chips, *database().targets, *names(), *mil_names(), *foreign_names())
    for kind in ("hal", "limit", "datapath", "geometry"):
        yield from property_table(kind)


def page_path(see: str) -> str:
    """Return the path of a page, seen from the root of the repository.

    >>> page_path("chips.md"), page_path("../cost.md")
    ('docs/reference/chips.md', 'docs/cost.md')
    """
    return f"docs/{see.removeprefix('../')}" if see.startswith("../") else f"docs/reference/{see}"


def explain_id(key: str, name: str) -> Explanation:
    """Return what is known of a rule, a kind of prediction, or a conflict between sources.

    Raises:
        UnknownNameError: The id is unknown.
    """
    if key in database().conflicts:
        return explain_conflict(key)
    if key in PREDICTED:
        known = PREDICTED[key]
        rows = [Row("remedy", known.remedy)] if known.remedy else []
        rows += [Row("why", known.explanation)]
        rows += [Row("reported in", ", ".join(map(thread_link, known.threads)))] if known.threads else []
        return Explanation("prediction", known.id, known.message, tuple(rows))
    if key not in rules() and not ID.match(key):
        return explain_term(name)
    if key not in rules():
        raise UnknownNameError.of("rule", name, (*rules(), *PREDICTED), remedy=f"what can be explained: {KINDS}")
    rule = rules()[key]
    rows = [Row("remedy", rule.advice())] if rule.remedy else []
    rows += [Row("why", rule.explanation)] if rule.explanation else []
    rows += [Row("severity", str(rule.severity)), Row("bound", f"{rule.relation} {rule.bound}")]
    rows += [Row("concerns", find_concerned(rule))]
    rows += [Row("reported in", ", ".join(map(thread_link, rule.threads)))] if rule.threads else []
    return Explanation("rule", rule.id, rule.statement, (*rows, *bounds_of(rule)))


def find_concerned(rule: Rule) -> str:
    """Return the operations that a rule looks at."""
    if rule.ops is not None:
        return ", ".join(sorted(rule.ops))
    if rule.gated:
        return f"operations that need {rule.bound}"
    return "all operations" if rule.trait is None else f"operations of the trait {rule.trait.name.lower()}"


def bounds_of(rule: Rule) -> Iterator[Row]:
    """Yield the bound of a rule on one target of each family."""
    for target in group("families"):
        bound = rule.bound_on(target)
        if isinstance(bound, NoDataError):
            yield Row(target.name, "unknown", bound.message)
        else:
            yield Row(target.name, plain_text(bound.value), str(bound.evidence))


def explain_property(kind: str, name: str) -> Explanation:
    """Return a hardware field, limit or switch on every target, by its name or its offset."""
    table = property_table(kind)
    field = name
    if name.lower().startswith("0x"):
        field = offset_name(name)
    field = database().aliases.get(field, field)
    if field not in table:
        raise UnknownNameError.of(f"{kind} field", name, table)
    return Explanation(kind, field, summary_of(table[field]), tuple(property_rows(kind, field)))


def property_table(kind: str) -> Mapping[str, Property]:
    """Return the properties of a kind."""
    tables = {
        "hal": database().hal, "limit": database().limits, "datapath": database().datapath,
        "geometry": database().geometry,
    }  # fmt: skip
    return tables[kind]


def offset_name(text: str) -> str:
    """Return the name of the hardware field at an offset.

    Raises:
        UnknownNameError: It is not an offset, or no field is known there.
    """
    try:
        offset = int(text, 16)
    except ValueError:
        raise UnknownNameError(f"{text!r} is not an offset, such as 0x81d") from None
    return group("all")[0].hal.name_at(offset)


def summary_of(known: Property) -> str:
    """Return what a property is, with its offsets where it has any."""
    offsets = ", ".join(f"{offset:#x} of build {build}" for build, offset in known.offsets.items())
    return f"{known.summary}{f' At {offsets}.' if offsets else ''}{f' See {known.see}.' if known.see else ''}"


def property_rows(kind: str, field: str) -> Iterator[Row]:
    """Yield the value of a property on every silicon target; targets alike share a row."""
    shared: dict[tuple[str, str], list[str]] = {}
    for target in group("all"):
        try:
            fact = target.groups[kind].fact(field)
        except NoDataError as missing:
            shared.setdefault(("unknown", missing.message), []).append(target.name)
            continue
        shared.setdefault((plain_text(fact.value), str(fact.evidence)), []).append(target.name)
    for (value, evidence), targets in shared.items():
        yield Row(", ".join(targets), value, evidence)


def explain_operation(name: str) -> Explanation:
    """Return what is known of an operation."""
    from aneforge.commands.explained_names import explain_op  # noqa: PLC0415 - few explanations need it

    return explain_op(name)


def explain_known_validator(name: str) -> Explanation | None:
    """Return what is known of a validator; None where there is none of that name."""
    from aneforge.commands.explained_names import explain_validator  # noqa: PLC0415 - few explanations need it

    return explain_validator(name)


def explain_target(name: str) -> Explanation:
    """Return what is known of a target."""
    target = resolve(name)
    rows = [Row("chips", title_of(target) or "not known"), Row("kind", str(target.kind))]
    rows += [Row("family", "none" if target.family is None else f"{target.family.name} family")]
    for prefix, properties in target.groups.items():
        for field in properties:
            fact = properties.fact(field)
            rows.append(Row(f"{prefix}.{field}", plain_text(fact.value), str(fact.evidence)))
    for encoding, stream in target.streams.items():
        rows.append(Row(f"stream.{encoding}", "streams" if stream.streams else "folds", str(stream.evidence)))
    return Explanation("target", target.name, target.summary, tuple(rows))


def explain_conflict(name: str) -> Explanation:
    """Return a question on which sources disagree: what was chosen, what was not, and why."""
    known = database().conflicts[name]
    rows = [Row("chosen", known.chosen), Row("rejected", known.rejected), Row("why", known.reason)]
    rows += [Row("sources", ", ".join(known.sources))]
    rows += [Row("holds", f"{field} of {target} is {plain_text(value)}") for target, field, value in known.holds]
    return Explanation("conflict between sources", name, known.question, tuple(rows))


def explain_pass(name: str) -> Explanation:
    """Return what a pass of the compiler does."""
    from aneforge.compiler.pipeline import PIPELINE  # noqa: PLC0415 - few explanations need it

    found = PIPELINE.passes[PIPELINE.place(name)]
    text = " ".join((type(found).__doc__ or "").split("\n\n", maxsplit=1)[0].split())
    place = Row("place", f"{PIPELINE.place(name) + 1} of {len(PIPELINE.passes)}, {found.phase}")
    return Explanation("pass", name, text, (place, Row("options", str(found))))


def explain_route(name: str) -> Explanation:
    """Return a route to the engine with every figure that was published of it, and what was corrected."""
    from aneforge.analysis.routes import route, time_range_text  # noqa: PLC0415 - few explanations need it

    known = route(name)
    rows = [Row("also", ", ".join(known.also))] if known.also else []
    rows += [Row("function", known.function), Row("device", known.device)]
    rows += [Row("status", str(known.status), str(known.evidence)), Row("recommendation", known.recommendation)]
    rows += [Row("backend", known.backend)] if known.backend else []
    rows += [Row("wraps", known.over)] if known.over else []
    rows += [Row("correction", known.correction)] if known.correction else []
    for figure in known.figures:
        taken_back = ", withdrawn" if figure.withdrawn else ""
        value = f"{time_range_text(figure.microseconds)}{taken_back}: {figure.what}; {figure.where}"
        rows.append(Row(str(figure.measures), value, str(figure.evidence)))
    return Explanation("route", known.name, known.title, tuple(rows))


def explained_chaining(name: str = "") -> Explanation:
    """Return all that is known of chaining, or one class, method, rule or experiment of it."""
    from aneforge.commands.chaining_explained import explain_chaining, explain_part  # noqa: PLC0415 - it imports this

    return explain_part(name) if name else explain_chaining()


NAMED: Mapping[str, Callable[[str], Explanation]] = {
    "op": explain_operation,
    "target": explain_target,
    "chip": explain_target,
    "pass": explain_pass,
    "route": explain_route,
}
"""What the second of two words is a name of, by the first."""
