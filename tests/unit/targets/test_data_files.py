"""The data files as a whole: every value has evidence that leads somewhere, and a mistake in a file is named."""

import re
import shutil
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import aneforge
from aneforge.errors import DataFileError
from aneforge.evidence import Evidence, EvidenceKind
from aneforge.targets import Database, Kind, LegalityFamily, database, resolve
from aneforge.targets.audit import audit
from aneforge.targets.target import SINGLE_VALUES

PROPERTY_FILES = ["hal_scalars", "hal_bytes", "limits", "datapath", "geometry"]


def target_evidence() -> Iterator[tuple[str, Evidence]]:
    for target in database().targets.values():
        for column, fact in target.facts.items():
            yield f"{target.name}.{column}", fact.evidence
        for stream in target.streams.values():
            yield f"{target.name}.{stream.encoding}", stream.evidence


def chip_evidence() -> Iterator[tuple[str, Evidence]]:
    for chip in database().chips.values():
        known = (chip.evidence, chip.reported_evidence, chip.parts_evidence, chip.bandwidth_evidence)
        yield from ((chip.name, evidence) for evidence in known if evidence)


def all_evidence() -> Iterator[tuple[str, Evidence]]:
    for name, known in database().properties.items():
        for column, fact in known.facts.items():
            yield f"{name}.{column}", fact.evidence
    yield from target_evidence()
    yield from chip_evidence()
    for clock in database().clocks.values():
        yield f"clock {clock.curve}", clock.evidence
    for generation in database().descriptors.values():
        yield f"descriptor {generation.number}", generation.evidence
        if generation.patch_width_evidence:
            yield f"patch width of descriptor {generation.number}", generation.patch_width_evidence
    blocks = database().cost_blocks
    for evidence in (blocks.evidence, blocks.thresholds_evidence, *(row.evidence for row in blocks.rows)):
        yield "device cost table", evidence


def test_every_source_is_listed() -> None:
    known = set(database().sources)
    unlisted = {place: evidence.source for place, evidence in all_evidence() if evidence.source.split()[0] not in known}
    assert unlisted == {}


def test_every_listed_source_is_used() -> None:
    used = {evidence.source.split()[0].rstrip(",") for _, evidence in all_evidence()}
    cited = {source.split()[0].rstrip(",") for one in database().conflicts.values() for source in one.sources}
    mentioned = {key for key in database().sources if any(key in evidence.note for _, evidence in all_evidence())}
    assert set(database().sources) == used | cited | mentioned | set(cited_by_other_rooms())


def cited_by_other_rooms() -> Iterator[str]:
    """Yield the sources that data files beside the target database cite."""
    package = Path(aneforge.__file__).parent
    for file in package.glob("*/data/*.toml"):
        if file.parent.parent.name != "targets":
            yield from re.findall(r'\bsource = "([a-z0-9-]+)', file.read_text("utf-8"))


def test_every_measurement_names_a_chip_that_exists() -> None:
    chips = {chip.name for chip in database().chips.values()}
    for place, evidence in all_evidence():
        assert (evidence.kind is EvidenceKind.MEASURED) == bool(evidence.on), place
        assert set(evidence.on) <= chips, place


def test_every_conflict_that_a_value_names_is_recorded() -> None:
    named = {evidence.conflict for _, evidence in all_evidence() if evidence.conflict}
    assert named <= set(database().conflicts)


def test_all_published_conflicts_are_decided() -> None:
    assert {f"C{number}" for number in range(1, 25)} <= set(database().conflicts)
    for conflict in database().conflicts.values():
        assert all([conflict.question, conflict.chosen, conflict.rejected, conflict.reason, conflict.sources])


@pytest.mark.parametrize("conflict_id", sorted(database().conflicts))
def test_the_database_holds_what_was_decided(conflict_id: str) -> None:
    conflict = database().conflicts[conflict_id]
    assert {source.split()[0].rstrip(",") for source in conflict.sources} <= set(database().sources)
    for target, name, value in conflict.holds:
        assert resolve(target).fact(name).value == value, (target, name)


def test_names_are_unique_over_all_groups() -> None:
    data = database()
    groups = [data.hal_scalars, data.hal_bytes, data.limits, data.datapath, data.geometry, data.streams]
    names = [*SINGLE_VALUES, *(name for group in groups for name in group)]
    aliases = [alias for known in data.properties.values() for alias in known.aliases]
    assert len(names) + len(aliases) == len({*names, *aliases})
    assert set(data.aliases) == set(aliases)


def test_offsets_are_unique_per_build() -> None:
    for build in database().compiler_builds:
        offsets = [offset for known in database().hal.values() for offset in known.offsets_in(build)]
        assert len(offsets) == len(set(offsets))
    builds = {build for known in database().hal.values() for build in (*known.offsets, *known.more_offsets)}
    assert builds == set(database().compiler_builds)


def test_texts_speak_of_the_project_alone() -> None:
    for path in database().folder.glob("*.toml"):
        words = path.read_text(encoding="utf-8").lower().replace("=", " ").split()
        assert "seed" not in words, path.name


def copy_of_data(folder: Path) -> Path:
    return Path(shutil.copytree(database().folder, folder / "data"))


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def test_a_new_target_is_one_entry(tmp_path: Path) -> None:
    folder = copy_of_data(tmp_path)
    append(folder / "targets.toml", '\n[targets.h22]\nkind = "silicon"\nsummary = "New."\nbuilds = []\ntier = "a18"\n')
    target = Database(folder).targets["h22"]
    assert target.kind is Kind.SILICON
    assert target.hal.flag("texture_engine")
    assert target.limits.integer("max_tensor_dim") == 65536


def test_a_new_chip_is_one_entry(tmp_path: Path) -> None:
    folder = copy_of_data(tmp_path)
    entry = '\n[chips.m7]\nname = "M7"\ntarget = { value = "h19", kind = "inferred", source = "guide" }\n'
    append(folder / "chips.toml", entry)
    assert Database(folder).chips["m7"].target == "h19"


@pytest.mark.parametrize("file", PROPERTY_FILES)
def test_a_new_value_is_one_entry(tmp_path: Path, file: str) -> None:
    folder = copy_of_data(tmp_path)
    entry = '\n[new_field]\nsummary = "New."\nevidence = { kind = "decoded", source = "guide" }\nvalues = { a13 = 7 }\n'
    append(folder / f"{file}.toml", entry)
    target = Database(folder).targets["h13"]
    assert target.fact("new_field").value == 7


def test_a_target_overrides_its_tier_by_one_cell(tmp_path: Path) -> None:
    folder = copy_of_data(tmp_path)
    path = folder / "hal_bytes.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("[texture_engine.values]", "[texture_engine.values]\nh13g = true"), encoding="utf-8")
    targets = Database(folder).targets
    assert (targets["h13"].hal.flag("texture_engine"), targets["h13g"].hal.flag("texture_engine")) == (False, True)


def test_a_given_legality_wins_over_the_one_that_follows_from_the_version(tmp_path: Path) -> None:
    folder = copy_of_data(tmp_path)
    entry = '\n[targets.h22]\nkind = "silicon"\nsummary = "New."\nbuilds = []\ntier = "a18"\nhardware_version = 4\n'
    append(folder / "targets.toml", entry + 'legality = "A18"\n')
    target = Database(folder).targets["h22"]
    assert (target.hardware_version, target.legality) == (4, LegalityFamily.A18)


@pytest.mark.parametrize(
    ("file", "broken", "message"),
    [
        ("chips", '[chips.m7]\nname = "M7"\n', r"chips.toml: Object missing required field `target` - at `\$.chips"),
        ("chips", '[chips.m7]\nname = "M7"\ntarget = { value = "h99", kind = "inferred", source = "x" }\n', "'h99'"),
        ("chips", '[chips.m7]\nname = "M7"\ntarget = { value = "h13" }\n', "without kind and source"),
        (
            "targets",
            '[targets.h22]\nkind = "silicon"\nsummary = ""\nbuilds = []\ntier = "a99"\n',
            "'a99', which is not a tier",
        ),
        (
            "chips",
            '[chips.m7]\nname = "M7"\ntarget = {value="h19",kind="inferred",source="x"}\nbandwidth = {value="fast"}\n',
            "gives 'fast' where a number is expected",
        ),
        ("limits", '[new]\nsumary = ""\n', "limits.toml: Object contains unknown field `sumary`"),
        (
            "limits",
            '[new]\nsummary = ""\nevidence = { kind = "guessed", source = "x" }\n',
            "Invalid enum value 'guessed'",
        ),
        (
            "limits",
            '[new]\nsummary = ""\nevidence = { kind = "inferred", source = "x" }\nvalues = { a99 = 1 }\n',
            "new.values has no tier or target called a99",
        ),
        ("limits", "[new\n", "limits.toml: .*line"),
    ],
)
def test_a_mistake_in_a_file_is_named(tmp_path: Path, file: str, broken: str, message: str) -> None:
    folder = copy_of_data(tmp_path)
    append(folder / f"{file}.toml", f"\n{broken}")
    with pytest.raises(DataFileError, match=message):
        _ = (Database(folder).targets, Database(folder).chips)


def rows_of(file: str) -> dict[str, dict[str, Any]]:
    """Return the rows of a data file as they are written."""
    return tomllib.loads((database().folder / f"{file}.toml").read_text(encoding="utf-8"))[file]


def test_the_audit_counts_what_is_there() -> None:
    result = audit()
    rows = rows_of("targets")
    kinds = [row["kind"] if isinstance(row["kind"], str) else row["kind"]["value"] for row in rows.values()]
    assert result.targets_by_kind == Counter(kinds)
    assert result.targets_with_data == sum("tier" in row for row in rows.values())
    assert result.tiers == len(rows_of("tiers"))
    assert sum(result.evidence.values()) == sum(count.values for count in result.counts)
    by_name = {count.what: count for count in result.counts}
    for group, name in (
        (database().hal_bytes, "HAL bytes × tiers"),
        (database().limits, "limits × tiers"),
        (database().geometry, "geometry × tiers"),
    ):
        assert by_name[name].entries == len(group)
        assert by_name[name].values == sum(len(known.facts) for known in group.values())
    assert (by_name["hardware versions"].values, by_name["parser keys"].values) == (9, 4)
    assert by_name["chips"].values == sum(
        1 + bool(chip.reported) + bool(chip.soc) + bool(chip.bandwidth) for chip in database().chips.values()
    )
