"""Failures that users reported on real engines, each as the smallest model that shows it."""

import numpy as np
import pytest

import aneforge as af
from aneforge.formats.mil.program import parse_mil
from aneforge.ops.constant import Blockwise
from aneforge.rules import Severity, rules

IMAGE = (1, 8, 32, 32)


def found(out: af.Tensor, target: str) -> dict[str, Severity]:
    """Return the rules that object to a graph, and how much."""
    return {finding.rule: finding.severity for finding in af.preflight(out, target).findings}


def remedies(out: af.Tensor, rule: str, target: str = "m1") -> str:
    return next(finding.remedy for finding in af.preflight(out, target).findings if finding.rule == rule)


@pytest.mark.parametrize("target", ["m1", "m4", "m6"])
def test_softplus_whose_input_is_not_known_to_be_small(target: str) -> None:
    x = af.input(IMAGE)
    assert found(x.softplus(), target) == {"ANE-QUIRK-002": Severity.WARN}
    assert "softplus(min(x, 10)) + relu(x − 10)" in remedies(x.softplus(), "ANE-QUIRK-002")


@pytest.mark.parametrize("reach", [10.0, 10.5])
def test_softplus_knows_a_promise_and_a_clip(reach: float) -> None:
    expected = {} if reach <= 10 else {"ANE-QUIRK-002": Severity.WARN}
    x = af.input(IMAGE)
    for bounded in (af.input(IMAGE, max_abs=reach), x.clip(-100, reach), af.minimum(x, reach)):
        assert found(bounded.softplus(), "m1") == expected
    assert found(x.sigmoid().softplus(), "m1") == {}


def test_the_remedy_for_softplus_is_silent() -> None:
    x = af.input(IMAGE)
    assert found(af.minimum(x, 10.0).softplus() + (x - 10.0).relu(), "m1") == {}


def masked(value: float) -> af.Tensor:
    scores, mask = af.input((1, 2, 8, 8)), np.triu(np.full((1, 1, 8, 8), value, np.float32), 1)
    return (scores + mask).softmax(-1)


def test_masks_beyond_fp16() -> None:
    with pytest.warns(af.PrecisionWarning):
        out = masked(-1e9)
    assert found(out, "m5") == {"ANE-QUIRK-003": Severity.WARN}
    assert found(masked(-1e4), "m5") == {}
    assert "−10000" in remedies(out, "ANE-QUIRK-003")


def test_a_large_number_that_no_softmax_reads_is_no_mask() -> None:
    with pytest.warns(af.PrecisionWarning):
        out = af.input((1, 8)) + np.full((1, 8), -1e9, np.float32)
    assert found(out, "m5") == {}


@pytest.mark.parametrize(("width", "rules_found"), [(270, {"ANE-STATE-001": Severity.REJECT}), (256, {})])
def test_a_state_is_a_multiple_of_32_wide(width: int, rules_found: dict[str, Severity]) -> None:
    kept = af.state("kept", (1, 4, width))
    assert found(kept + af.input((1, 4, width)), "m2") == rules_found


def test_a_tensor_wider_than_16384_runs_from_the_m4_on() -> None:
    out = af.input((1, 4, 1, 16_385)).relu()
    assert found(out, "m3")["ANE-EXTENT-001"] is Severity.OVERSIZE
    assert found(out, "m4") == {}
    assert "split" in remedies(out, "ANE-EXTENT-001")


def test_a_transpose_has_a_wider_limit() -> None:
    out = af.input((1, 4, 8, 32_000)).transpose((0, 1, 3, 2))
    assert "ANE-EXTENT-003" not in found(out, "m1")
    (report,) = (one for one in af.preflight(out, "m1").reports if one.op == "transpose")
    assert report.findings == ()


def test_pixel_shuffle_written_with_six_axes() -> None:
    graph = parse_mil(
        "program(1.3) {\n  func main<ios18>(tensor<fp16, [1, 4, 8, 8]> x) {\n"
        '    tensor<int32, [6]> s = const()[name = string("s"), val = tensor<int32, [6]>([1, 1, 2, 2, 8, 8])];\n'
        '    tensor<fp16, [1, 1, 2, 2, 8, 8]> y = reshape(x = x, shape = s)[name = string("y")];\n  } -> (y);\n}\n'
    ).graph()
    findings = af.preflight(graph, "m1").findings
    assert "ANE-RANK-001" in {finding.rule for finding in findings}
    assert "pixel_shuffle" in findings[0].remedy


def test_a_long_average() -> None:
    """The report meets a limit of 13 on a chip that it does not name; the first that compiles MIL has 29."""
    assert found(af.input((1, 8, 28, 28)).avg_pool(28), "m1") == {}
    assert "ANE-KERNEL-004" in found(af.input((1, 8, 28, 28)).avg_pool(28), "h12")
    out = af.input((1, 8, 30, 30)).avg_pool(30)
    assert found(out, "m1")["ANE-KERNEL-004"] is Severity.OVERSIZE
    assert found(out, "m2") == {}
    assert "two smaller poolings" in remedies(out, "ANE-KERNEL-004")


@pytest.mark.parametrize("stride", [5, 10, 7])
def test_strides_are_products_of_2_3_4_and_8(stride: int) -> None:
    out = af.conv(af.input(IMAGE), np.ones((8, 8, 1, 1)), stride=stride)
    finding = next(one for one in af.preflight(out, "m1").findings if one.rule == "ANE-STRIDE-001")
    assert "2, 3, 4, 8" in finding.message


def blocks() -> af.Tensor:
    weight = Blockwise(np.ones((8, 64), np.int8), np.ones((8, 2), np.float16))
    return af.input((1, 64)).linear(weight)  # pyright: ignore[reportArgumentType] - an encoded weight


def test_weights_in_blocks_fold_or_are_reported_wrong() -> None:
    assert found(blocks(), "m1") == {"ANE-WEIGHT-001": Severity.INFO}
    assert found(blocks(), "m2") == {"ANE-WEIGHT-001": Severity.INFO}
    assert found(blocks(), "m5") == {"ANE-WEIGHT-002": Severity.WARN}


def test_a_layer_norm_with_gamma_and_beta_is_named_unreliable() -> None:
    out = af.input((4, 64)).layer_norm(np.ones(64), np.zeros(64))
    assert found(out, "m1") == {"ANE-QUIRK-004": Severity.INFO}


@pytest.mark.parametrize(("width", "reported"), [(64, False), (65, True), (128, False), (193, True)])
def test_a_square_with_an_activation_behind_it(width: int, reported: bool) -> None:  # noqa: FBT001 - a parameter
    square = af.input((1, 8, width)).square()
    assert found(square.relu(), "m1") == ({"ANE-QUIRK-005": Severity.WARN} if reported else {})
    assert found(square + 1.0, "m1") == {}


def test_a_verdict_for_every_chip_tells_them_apart() -> None:
    verdicts = af.preflight_all(af.input((1, 4, 1, 20_000)).relu())
    assert {name for name, verdict in verdicts.items() if verdict.ok} >= {"h16", "h17", "h18"}
    assert not verdicts["h13"].ok


def test_every_thread_is_named_by_a_rule() -> None:
    threads = {thread for known in rules().values() for thread in known.threads}
    assert threads >= {
        "apple/coremltools#2687",
        "apple/coremltools#2359",
        "apple/coremltools#2669",
        "cactus-compute/cactus#734",
        "apple/coremltools#2631",
        "ncdrone/rustane#13",
        "sbryngelson/ANEForge#181",
        "pytorch/executorch#7907",
        "microsoft/onnxruntime#14212",
        "hollance/neural-engine#2",
        "apple/coremltools#2173",
        "apple/coreai-models#279",
        "sbryngelson/ANEForge#149",
    }
