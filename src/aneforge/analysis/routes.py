"""Routes: the ways from a process to the engine, with what each was published to take, and what was corrected since.

`data/routes.toml` says what there is, `data/route_calls.toml` and `data/route_figures.toml` hold the figures. They are
here, and not with the backends that use them, because predictions assume one of the routes: its calls bound the
dispatch (`aneforge.analysis.machine`).
"""

from __future__ import annotations

import math
import re
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

from aneforge.analysis.files import DATA
from aneforge.errors import DataFileError, NoDataError, UnknownNameError
from aneforge.evidence import Evidence, EvidenceKind
from aneforge.records import dataclass
from aneforge.targets import database
from aneforge.targets.schema import Entry, read

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = [
    "Measures",
    "ProgramMeasurement",
    "Route",
    "RouteFigure",
    "RouteStatus",
    "Standing",
    "calls_on",
    "get_assumed_route",
    "is_assumed",
    "one_time",
    "production_size",
    "programs",
    "range_text",
    "route",
    "routes",
    "standing_of",
    "time_range_text",
    "warn_below",
]

ENGINE = "Neural Engine"
WORKLOADS = {
    "attention": "attention of one head, {0} rows of {1}",
    "block": "a transformer block, {0} rows of {1}",
    "conv": "{1}×{1} convolution [1, {0}, {3}, {3}]",
    "conv1x1": "1×1 convolution of {0} channels over {1} columns",
    "gradients": "two products of a gradient, {0} rows of {1}",
    "linear_bias": "a linear layer, {0} rows of {1}",
    "matmul": "[{0}, {1}] @ [{1}, {2}]",
}
"""What ran, in words, by the workloads of the data files."""


class RouteStatus(StrEnum):
    """What to make of a route."""

    RECOMMENDED = "recommended"
    STABLE = "stable"
    WORKS = "works"
    """It can be called, and there is no reason to prefer it."""
    BASELINE = "baseline"
    """Something to compare with."""
    UNSUITABLE = "unsuitable"
    BLOCKED = "blocked"
    WITHDRAWN = "withdrawn"
    """What was published of it was taken back."""
    UNLISTED = "unlisted"
    """No source says anything of it."""


class Measures(StrEnum):
    """What a figure is the time of."""

    CALL = "call"
    """One call that computes next to nothing."""
    PROGRAM = "program"
    """One call of a program."""
    FIRST_CALL = "first call"
    COMPILE = "compile"
    """Whether a cache held the program is not known."""
    COLD_COMPILE = "cold compile"
    WARM_LOAD = "warm load"
    COMPILE_AND_LOAD = "compile and load"
    RESPECIALISATION = "respecialisation"
    """A compile of the same program with other weights."""
    POOL_CYCLE = "pool cycle"
    """Something is taken out of a pool and put back."""
    TENSOR_HANDOFF = "tensor handoff"
    """A tensor that another process maps."""

    @property
    def repeated(self) -> bool:
        """Every call pays it."""
        return self in (Measures.CALL, Measures.PROGRAM)


class RouteEntry(Entry, frozen=True):
    """A route as the file has it."""

    title: str
    function: str
    device: str
    status: RouteStatus
    recommendation: str
    evidence: Evidence
    also: tuple[str, ...] = ()
    backend: str = ""
    over: str = ""
    correction: str = ""


class BackendEntry(Entry, frozen=True):
    """A backend that computes on this machine."""

    device: str
    status: RouteStatus
    recommendation: str


class ComparedEntry(Entry, frozen=True):
    """The program that routes are compared by."""

    workload: str
    shape: tuple[int, ...]


class RoutesFile(Entry, frozen=True):
    """`routes.toml`."""

    assumed: str
    """The route that predictions assume."""
    warn_below: float
    """A program that is predicted to take at most this many dispatches is warned about."""
    compared: ComparedEntry
    production: ComparedEntry
    """The size that the comparison of evaluations calls production."""
    routes: dict[str, RouteEntry]
    backends: dict[str, BackendEntry]


class FigureEntry(Entry, frozen=True):
    """One published time, its minimum and maximum, or several by what distinguishes them."""

    route: str
    milliseconds: float | tuple[float, float] | dict[str, float]
    chip: str = ""
    workload: str = ""
    shape: tuple[int, ...] = ()
    what: str = ""
    conflict: str | None = None
    withdrawn: bool = False


class PublicationEntry(Entry, frozen=True):
    """Times that were published together."""

    source: str
    how: str
    kind: EvidenceKind
    measures: Measures
    rows: tuple[FigureEntry, ...]
    macos: str = ""


class FiguresFile(Entry, frozen=True):
    """`route_calls.toml` and `route_figures.toml`."""

    publications: tuple[PublicationEntry, ...]


@dataclass(frozen=True, slots=True)
class RouteFigure:
    """A published time by one route."""

    route: str
    measures: Measures
    microseconds: tuple[float, float]
    """Minimum and maximum; equal where one figure was published."""
    chip: str | None
    """Its key; None where the source names none."""
    macos: str | None
    """None where the source names no version."""
    what: str
    """What ran, in words."""
    workload: str
    """What ran, as the cost model knows it; empty where the source does not say enough."""
    shape: tuple[int, ...]
    evidence: Evidence
    withdrawn: bool
    """Its authors took it back."""
    variants: tuple[tuple[str, float], ...] = ()
    """Where several times were published: each in microseconds, with what distinguishes it."""

    @property
    def where(self) -> str:
        """On which chip and system."""
        chip = "chip not named" if self.chip is None else database().chips[self.chip].name
        return chip if self.macos is None else f"{chip}, macOS {self.macos}"

    def __str__(self) -> str:
        taken_back = ", withdrawn" if self.withdrawn else ""
        several = "".join(f", {name} {time_range_text((time, time))}" for name, time in self.variants)
        return f"{time_range_text(self.microseconds)} ({self.measures}: {self.what}; {self.where}{taken_back}{several})"


@dataclass(frozen=True, slots=True)
class Route:
    """A way from a process to the engine, or to what is compared with it."""

    name: str
    also: tuple[str, ...]
    """Other names of it."""
    title: str
    function: str
    """What is called for one evaluation."""
    device: str
    status: RouteStatus
    backend: str | None
    """The backend that takes it; None where none does."""
    over: str | None
    """The route that it wraps: its calls are calls of that one with more around them."""
    recommendation: str
    correction: str
    """What was published of it and does not hold, or holds elsewhere only; empty where nothing is known."""
    evidence: Evidence
    figures: tuple[RouteFigure, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {self.title}; {self.device}, {self.status}",
            f"  {self.function}",
            f"  {self.recommendation}",
            *([f"  {self.correction}"] if self.correction else []),
            *(f"  {figure} [{figure.evidence.source}]" for figure in self.figures),
        ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Standing:
    """What sources say of a backend."""

    latency: RouteFigure | None
    """The published time of the program that routes are compared by; None where there is none."""
    device: str
    status: RouteStatus
    recommendation: str


@dataclass(frozen=True, slots=True)
class ProgramMeasurement:
    """The published time of one program by one route to the engine, as the cost model can price it."""

    chip: str
    """Empty where the publication names none."""
    workload: str
    shape: tuple[int, ...]
    low: float
    high: float
    """Microseconds: both are the figure, where one was published."""
    route: str
    conflict: str

    @property
    def microseconds(self) -> float:
        """The figure, or the geometric mean of its two ends."""
        return math.sqrt(self.low * self.high)

    def __str__(self) -> str:
        where = self.chip or "a chip that is not named"
        return f"{self.workload} {'×'.join(map(str, self.shape))} on {where} by {self.route}"


@cache
def routes_file() -> RoutesFile:
    """Return the routes as the file has them.

    Raises:
        DataFileError: It names a route that it does not have.
    """
    file = read(DATA / "routes.toml", RoutesFile)
    named = {file.assumed, *(entry.over for entry in file.routes.values() if entry.over)}
    if unknown := sorted(named - file.routes.keys()):
        raise DataFileError(f"routes.toml: there is no route called {', '.join(unknown)}")
    return file


@cache
def figures_of(name: str) -> tuple[RouteFigure, ...]:
    """Return the figures of a file.

    Raises:
        DataFileError: A row is of no route that is known, or does not say what ran.
    """
    found: list[RouteFigure] = []
    for publication in read(DATA / name, FiguresFile).publications:
        for row in publication.rows:
            if row.route not in routes_file().routes:
                raise DataFileError(f"{name}: there is no route called {row.route}")
            if bool(row.what) is bool(row.workload):
                raise DataFileError(f"{name}: a row of {row.route} must have either a workload or what ran")
            found.append(figure_of(row, publication))
    return tuple(found)


def figure_of(row: FigureEntry, publication: PublicationEntry) -> RouteFigure:
    """Return a row with what holds for all rows of its publication."""
    given = row.milliseconds
    times = tuple(given.values()) if isinstance(given, dict) else given if isinstance(given, tuple) else (given,)
    variants = given.items() if isinstance(given, dict) else ()
    chips = (database().chips[row.chip].name,) if row.chip else ()
    return RouteFigure(
        route=row.route,
        measures=publication.measures,
        microseconds=(round(1000 * min(times), 3), round(1000 * max(times), 3)),
        chip=row.chip or None,
        macos=publication.macos or None,
        what=row.what or WORKLOADS[row.workload].format(*row.shape),
        workload=row.workload,
        shape=row.shape,
        evidence=Evidence(publication.kind, publication.source, chips, publication.how, row.conflict),
        withdrawn=row.withdrawn,
        variants=tuple((name, round(1000 * time, 3)) for name, time in variants),
    )


def routes() -> tuple[Route, ...]:
    """Return every route with its published times, the recommended first.

    >>> import aneforge as af
    >>> [route.name for route in af.routes() if route.status in ("recommended", "stable")]
    ['e5rt', 'standard']
    """
    return list_routes()


@cache
def list_routes() -> tuple[Route, ...]:
    """Return every route, read once."""
    known = (*figures_of("route_calls.toml"), *figures_of("route_figures.toml"))
    return tuple(
        Route(
            name=name,
            also=entry.also,
            title=entry.title,
            function=entry.function,
            device=entry.device,
            status=entry.status,
            backend=entry.backend or None,
            over=entry.over or None,
            recommendation=entry.recommendation,
            correction=entry.correction,
            evidence=entry.evidence,
            figures=tuple(figure for figure in known if figure.route == name),
        )
        for name, entry in routes_file().routes.items()
    )


def route(name: str) -> Route:
    """Return a route by one of its names; capitals, hyphens and underscores do not matter.

    >>> import aneforge as af
    >>> af.route("processRequest").status, af.route("real-time").name, af.route("in_memory_model").name
    (<RouteStatus.WORKS: 'works'>, 'real_time', 'standard')

    Raises:
        UnknownNameError: No route has that name; the nearest names are listed.
    """
    spelt = {squeeze(word): known for known in routes() for word in (known.name, *known.also)}
    if squeeze(name) not in spelt:
        raise UnknownNameError.of("route", name, [word for known in routes() for word in (known.name, *known.also)])
    return spelt[squeeze(name)]


def squeeze(name: str) -> str:
    """Return a name without capitals and marks between words.

    >>> squeeze("processRequest") == squeeze("process_request")
    True
    """
    return re.sub(r"[^a-z0-9]", "", name.lower())


def get_assumed_route() -> str:
    """Return the route that predictions assume."""
    return routes_file().assumed


def is_assumed(name: str) -> bool:
    """Return whether calls by a route are calls by the one that predictions assume: that one, or a wrapper of it.

    >>> is_assumed("e5rt"), is_assumed("mle5"), is_assumed("standard")
    (True, True, False)
    """
    return get_assumed_route() in (name, routes_file().routes[name].over)


def production_size() -> tuple[str, tuple[int, ...]]:
    """Return the workload and the shape that the comparison of evaluations calls production."""
    entry = routes_file().production
    return entry.workload, entry.shape


def warn_below() -> float:
    """Return how many dispatches a program must be predicted to take for no warning to be given."""
    return routes_file().warn_below


def calls_on(chips: Collection[str]) -> tuple[RouteFigure, ...]:
    """Return the published calls of chips, given by key, whatever their route."""
    return tuple(one for one in figures_of("route_calls.toml") if one.chip in chips and not one.withdrawn)


@cache
def programs() -> tuple[ProgramMeasurement, ...]:
    """Return the published times of single programs on the engine that the cost model can price."""
    return tuple(
        ProgramMeasurement(
            figure.chip or "",
            figure.workload,
            figure.shape,
            *figure.microseconds,
            figure.route,
            figure.evidence.conflict or "",
        )
        for known in routes()
        for figure in known.figures
        if known.device == ENGINE and figure.measures.repeated and figure.workload and not figure.withdrawn
    )


def standing_of(backend: str) -> Standing:
    """Return what sources say of a backend, by its name; of one that they do not know, that it is unlisted.

    >>> standing_of("path_b").status, standing_of("mine").status
    (<RouteStatus.BLOCKED: 'blocked'>, <RouteStatus.UNLISTED: 'unlisted'>)
    """
    file = routes_file()
    here = file.backends.get(backend)
    if here is not None:
        return Standing(None, here.device, here.status, here.recommendation)
    taken = next((known for known in routes() if known.backend == backend), None)
    if taken is None:
        return Standing(None, "unknown", RouteStatus.UNLISTED, "")
    compared = (file.compared.workload, file.compared.shape)
    latency = next((one for one in taken.figures if (one.workload, one.shape) == compared), None)
    return Standing(latency, taken.device, taken.status, taken.recommendation)


def one_time(name: str, measures: Measures) -> str:
    """Return what a preparation by a route was published to take, in words.

    >>> one_time("e5rt", Measures.COLD_COMPILE)
    'about 750 ms'

    Raises:
        NoDataError: Nothing was published of it.
    """
    found = [one for one in route(name).figures if one.measures is measures]
    if not found:
        raise NoDataError(f"no source says how long {measures} takes by the route {name}")
    return f"about {time_range_text(found[0].microseconds)}"


def range_text(bounds: tuple[float, float]) -> str:
    """Return a range, or the one number that it is.

    >>> range_text((190.0, 230.0)), range_text((100.0, 100.0))
    ('190 to 230', '100')
    """
    least, most = bounds
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"


def time_range_text(microseconds: tuple[float, float]) -> str:
    """Return a range of times with its unit.

    >>> time_range_text((80.0, 110.0)), time_range_text((750000.0, 750000.0))
    ('80 to 110 µs', '750 ms')
    """
    least, most = microseconds
    if least < 1000:
        return f"{range_text(microseconds)} µs"
    return f"{range_text((least / 1000, most / 1000))} ms"
