"""The validators' data: the census, the names, the literal texts, and that nothing in the file is left hanging."""

from pathlib import Path

import pytest

from aneforge.compiler.ir.catalogue import kinds
from aneforge.compiler.validators import Standing, explain, exports, semantic_rules, validator_of, validators
from aneforge.compiler.validators.catalogue import count_rule_id, general_checks
from aneforge.compiler.validators.data import DIRECTIVE, FILE, NoValidatorEntry, read, validators_file
from aneforge.compiler.validators.declare import gate, get_stated_limit, layer_rule
from aneforge.compiler.validators.subjects import SPELLINGS, op_of
from aneforge.errors import DataFileError, UnknownNameError
from aneforge.ops.table import names
from aneforge.rules import Relation, rules
from aneforge.targets import database, resolve
from golden_text import Golden

EARLY = """
AffineTransform ArgMinMax BatchToSpace Broadcast ChannelToSpace Concat Conv CropResize CrossCorrelation CrossProduct
Dropout DynamicGOC DynamicSlice ElementWise Flatten GOC Gather GlobalArgMinMax InputView InstanceNorm L2Norm LRN
LayerNorm MatrixMult MinMaxNorm NMS Neuron Pad PixelShuffle PixelUnshuffle Pool Random Reduction Resample Reshape Resize
Softmax Sort SpaceToBatch SpaceToChannel Tile TopK Transpose
"""
LATER = {"Linear", "SDPA", "RingBufferWriter", "Unflatten"}
WITHOUT_DESCRIPTOR = {"ArgMinMax", "GlobalArgMinMax", "Broadcast", "CrossProduct", "ElementWise"}
AUTHORED_ALONE = {"unflatten"}
"""Operations that only an authored layer can be: no operation of the op table makes one."""


def of_standing(*standings: Standing) -> set[str]:
    return {one.name for one in validators().values() if one.standing in standings}


def test_the_census() -> None:
    census = validators_file().census
    exported = of_standing(Standing.DESCRIPTOR, Standing.NO_DESCRIPTOR, Standing.UNNAMED)
    assert len(exported) == census.layer_validators == 50
    assert len(exported) + len(exports()) == census.exports == 55
    assert sum(one.descriptor for one in validators().values()) == census.descriptors == 45


def test_the_names() -> None:
    named = of_standing(Standing.DESCRIPTOR, Standing.NO_DESCRIPTOR)
    assert len(EARLY.split()) == 43
    assert named == set(EARLY.split()) | LATER
    assert {name for name, entry in validators_file().validators.items() if entry.later} == LATER
    assert of_standing(Standing.NO_DESCRIPTOR) == WITHOUT_DESCRIPTOR
    assert of_standing(Standing.UNNAMED) == {"unnamed 1", "unnamed 2", "unnamed 3"}
    assert of_standing(Standing.INTERNAL) == {"ContrastAdaptiveSharpening", "Reverse"}


def test_the_five_other_exports_say_what_does_it_here() -> None:
    import aneforge.compiler.validators as room  # noqa: PLC0415 - the names are looked up in it

    assert [one.symbol for one in exports()] == [
        "_ANECValidateNetworkCreate",
        "_ANECValidate",
        "_ANECValidateMPSModule",
        "_ANECValidateMPSModuleCreate",
        "_ANECValidateMutableProcedureInfo",
    ]
    for one in exports():
        function = one.here.removeprefix("`").partition("(")[0]
        assert callable(getattr(room, function)), one.symbol


def test_symbols_of_what_is_exported_alone() -> None:
    assert validators()["Conv"].symbol == "_ANECValidateConvLayer"
    assert validators()["SDPA"].constructor == "_ANECSDPALayerDescInitialize"
    assert validators()["Broadcast"].constructor is None
    assert validators()["Reverse"].symbol is None
    assert validators()["unnamed 1"].symbol is None


@pytest.mark.parametrize("kind", kinds())
def test_every_kind_of_layer_has_a_validator_or_says_why_not(kind: str) -> None:
    found = validators_file().kinds[kind]
    if isinstance(found, NoValidatorEntry):
        assert found.none.endswith(".")
        assert validator_of(op_of(kinds()[kind])) is None
    else:
        checked_by = validator_of(op_of(kinds()[kind]))
        assert checked_by is not None
        assert checked_by.name == found


def test_no_kind_is_left_over() -> None:
    assert set(validators_file().kinds) == set(kinds())


def test_an_operation_has_one_validator_and_is_in_the_table() -> None:
    every = [op for one in validators().values() for op in one.ops]
    assert len(every) == len(set(every))
    assert set(every) - set(names()) == AUTHORED_ALONE


def test_spelled_kinds_are_those_with_a_form_of_their_own() -> None:
    assert set(SPELLINGS) == {name for name, kind in kinds().items() if kind.op is None}
    for name, spelling in SPELLINGS.items():
        assert set(spelling.operands) <= {operand.name for operand in kinds()[name].operands}
        assert set(spelling.attributes) <= {attribute.name for attribute in kinds()[name].attributes}


def test_every_row_names_a_rule_and_every_rule_has_a_row() -> None:
    rows = {check.rule for check in validators_file().every_check()}
    counted = {count_rule_id(one) for one in validators().values() if one.bottoms}
    assert rows <= set(rules()) | set(semantic_rules())
    assert set(semantic_rules()) == (rows | counted) - set(rules())
    assert not set(rules()) & set(semantic_rules())


def test_what_the_target_database_says_too_is_the_same() -> None:
    anywhere = resolve("m1").limits
    assert validators()["SDPA"].bottoms == anywhere.integers("sdpa_inputs")
    assert validators()["Concat"].bottoms == (anywhere.integer("concat_min_inputs"),)
    assert get_stated_limit("ANE-CROSSPRODUCT-002").facts["all"].value == (anywhere.integer("cross_product_length"),)
    assert get_stated_limit("ANE-NMS-002").facts["all"].value == (anywhere.integer("nms_box_channels"),)


def test_tiers_and_sources_exist() -> None:
    tiers, file = set(database().tiers), validators_file()
    for check in file.every_check():
        assert set(check.tiers) <= tiers, check.rule
    for name, entry in file.gates.items():
        assert set(entry.values) <= tiers | {"all"}, name
    evidence = [one.evidence for one in validators().values()]
    evidence += [check.evidence for one in validators().values() for check in one.checks]
    evidence += [check.evidence for check in general_checks()]
    evidence += [fact.evidence for name in file.gates for fact in gate(name).facts.values()]
    known = {chip.name for chip in database().chips.values()}
    for one in evidence:
        assert one.source.split()[0].rstrip(",") in database().sources, one
        assert set(one.on) <= known, one
    for one in validators().values():
        for gap in one.unchecked:
            assert gap.source.split()[0] in database().sources


def test_modes_of_the_non_linear_unit() -> None:
    modes = validators_file().neuron_modes.numbers
    assert set(modes) <= set(validators()["Neuron"].ops)
    assert all(1 <= mode <= resolve("m1").limits.integer("neuron_mode_max") for mode in modes.values())


def test_every_literal_text(golden: Golden) -> None:
    named = [(one.name, check) for one in validators().values() for check in one.checks if check.text]
    others = [("-", check) for check in general_checks() if check.text]
    lines = [f"{name} {check.rule} {check.stage}: {check.text}" for name, check in [*named, *others]]
    golden("\n".join(lines) + "\n")


def test_every_message(golden: Golden) -> None:
    texts = [
        f"{known.id} {known.severity}\n  {known.message}\n  Remedy: {known.advice()}"
        for known in semantic_rules().values()
    ]
    golden("\n".join(texts) + "\n")


def test_messages_end_and_have_remedies() -> None:
    for known in semantic_rules().values():
        assert known.message.endswith("."), known.id
        assert known.remedy.endswith("."), known.id


def test_explain_knows_both_kinds_of_rules() -> None:
    assert explain("ane-sdpa-003").id == "ANE-SDPA-003"
    assert explain("ANE-RANK-001") is rules()["ANE-RANK-001"]
    with pytest.raises(UnknownNameError, match="unknown rule 'ANE-SDPA-9'; nearest: ANE-SDPA-00"):
        explain("ANE-SDPA-9")


def test_directives() -> None:
    assert DIRECTIVE.findall("%s = %zd, [%zd,%d] %u 100%") == ["%s", "%zd", "%zd", "%d", "%u"]


def broken(folder: Path, old: str, new: str) -> Path:
    text = FILE.read_text("utf-8")
    assert old in text
    path = folder / "validators.toml"
    path.write_text(text.replace(old, new, 1), "utf-8")
    return path


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('fill = ["{op}"]', "fill = []", r"the text of ANE-FLOOR-002 has 1 places and 0 values"),
        ('convolution = "Conv"', 'convolution = "Konv"', r"kind 'convolution' names the validator 'Konv'"),
        ("bottoms = [1]", "bottom = [1]", r"Object contains unknown field `bottom`"),
        ("count = 3", 'count = "three"', r"Expected `int`, got `str`"),
        ("[census]", "[census", r"validators.toml: "),
    ],
)
def test_a_broken_file_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(DataFileError, match=message):
        read(broken(tmp_path, old, new))


def test_a_rule_without_data_is_refused() -> None:
    with pytest.raises(DataFileError, match="no validator applies the rule ANE-NONE-001"):
        layer_rule("ANE-NONE-001", Relation.NEVER)
    with pytest.raises(DataFileError, match="no row gives a limit for the rule ANE-CONV-005"):
        get_stated_limit("ANE-CONV-005")
    with pytest.raises(UnknownNameError, match="unknown gate 'unflatten_lower'; nearest: unflatten_lowers"):
        gate("unflatten_lower")
