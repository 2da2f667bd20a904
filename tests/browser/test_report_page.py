"""The HTML report in Chromium: what a reader does with it, by mouse and by keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aneforge.report.cards import cards
from aneforge.report.html.page import html
from aneforge.report.model import Counts, Node, Report, TargetReport
from report_samples import HOSTILE, sample_report

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

    Open = Callable[..., Page]

SECTIONS = (
    "headline", "findings", "chips", "graph", "timeline", "memory", "tasks", "divergence", "operations", "remarks",
)  # fmt: skip


@pytest.fixture(scope="module")
def report() -> Report:
    return sample_report(160, 5)


def column(page: Page, section: str, place: int) -> list[str]:
    """Return the texts of a column of the rows that are drawn."""
    return page.locator(f"#{section} tr[data-row] td:nth-child({place})").all_inner_texts()


def rows(page: Page, section: str) -> Locator:
    return page.locator(f"#{section} tr[data-row]")


def open_findings(page: Page) -> None:
    """Open the table of all findings."""
    page.get_by_text("All findings as a table").click()


def focus_in(page: Page) -> str:
    """Return the id, or the kind and class, of what has the focus."""
    return page.evaluate("(({id, tagName, className}) => id || `${tagName}.${className}`)(document.activeElement)")


def bare(verdicts: tuple[str, ...]) -> TargetReport:
    """Return a report of a target that says no more than it must."""
    counts = Counts(len(verdicts), 0, 0, 0)
    return TargetReport("chip-a", "Chip", ok=True, counts=counts, native_fraction=1.0, verdicts=verdicts, findings=())


def test_every_section_is_filled(open_report: Open, report: Report) -> None:
    page = open_report(report)
    assert page.title() == "sample <network> & co.onnx: aneforge report"
    assert page.inner_text("#about") == "ONNX · 159 operations · 9 chips · aneforge 0.0-sample"
    assert page.locator("#chips tbody tr").count() == 5
    assert [one for one in SECTIONS if not page.inner_text(f"#{one}").strip()] == []
    assert page.get_attribute("#content", "aria-busy") == "false"


def test_chips_sort_and_choose(open_report: Open, report: Report) -> None:
    page = open_report(report)
    names = page.locator("#chips tbody th button")
    page.get_by_role("button", name="Latency", exact=True).click()
    latency = {one.target: one.latency.microseconds for one in report.targets if one.latency}
    order = [text.split()[-1] for text in names.all_inner_texts()]
    assert order[:-1] == sorted(latency, key=latency.__getitem__)
    assert order[-1] == "chip-e", "a chip without a program has no latency, and comes last"
    page.locator("#chips tbody tr", has_text="chip-c").click()
    page.locator("#findings .on-target", has_text="on Chip C/C Pro (chip-c)").wait_for()
    assert page.input_value("#target") == "2"
    assert page.locator("#chips tr.chosen th").inner_text().split()[-1] == "chip-c"


def test_a_chip_without_a_program_says_why_once(open_report: Open, report: Report) -> None:
    page = open_report(report)
    page.select_option("#target", "4")
    (card,) = (one for one in cards(report) if 4 in one.places)
    assert card.row.reason
    page.locator("#remarks", has_text=card.row.reason).wait_for()
    for section in ("timeline", "memory", "tasks"):
        assert page.locator(f"#{section}").is_hidden(), "there is nothing to show of a program"
        assert page.locator(f"nav a[href='#{section}']").is_hidden()
    page.select_option("#target", "0")
    page.locator("#timeline canvas").wait_for()


def test_a_table_sorts(open_report: Open, report: Report) -> None:
    page = open_report(report)
    open_findings(page)
    header = page.locator("#findings th", has_text="Seen")
    header.get_by_role("button").click()
    assert header.get_attribute("aria-sort") == "descending"
    seen = column(page, "findings", 6)
    assert seen[0] == "inf", "infinity is the largest"
    assert seen[1] == f"{2**60}", "an integer that JavaScript has no number for keeps its digits"
    header.get_by_role("button").click()
    assert header.get_attribute("aria-sort") == "ascending"
    numbers = [float(one.replace(",", "")) for one in column(page, "findings", 6)]
    assert numbers == sorted(numbers)
    header.get_by_role("button").click()
    assert header.get_attribute("aria-sort") == "none"
    severities = [one.severity for one in report.targets[0].findings]
    assert column(page, "findings", 1) == severities[: rows(page, "findings").count()]


def test_a_table_filters(open_report: Open, report: Report) -> None:
    page = open_report(report)
    open_findings(page)
    findings = report.targets[0].findings
    output = page.locator("#findings output")
    assert output.inner_text() == f"{len(findings)} rows"
    page.get_by_role("search", name="Filter Findings").get_by_role("combobox", name="Severity").select_option("reject")
    rejected = [one for one in findings if one.severity == "reject"]
    assert output.inner_text() == f"{len(rejected)} of {len(findings)} rows"
    assert set(column(page, "findings", 1)) == {"reject"}
    word = rejected[0].op
    page.fill("#findings input[type=search]", f"{word} REJECT")
    assert rows(page, "findings").count() == sum(word in f"{one.op} {one.message}" for one in rejected)
    page.fill("#findings input[type=search]", "nothing is called this")
    assert "No row fits the filter." in page.inner_text("#findings")
    assert rows(page, "findings").count() == 0


def test_a_finding_opens_with_all_it_says(open_report: Open, report: Report) -> None:
    page = open_report(report)
    number, finding = next((place, one) for place, one in enumerate(report.targets[0].findings) if one.evidence)
    open_findings(page)
    rows(page, "findings").nth(number).click()
    panel = page.locator("#detail")
    words = panel.inner_text()
    for part in (
        finding.rule,
        finding.message.replace("chip-a", "Chip A"),
        finding.remedy,
        "16,384",
        "a made-up table",
        "measured",
        "On every chip",
    ):
        assert part in words
    assert panel.locator(".finding.chosen").count() == 1
    assert page.locator("#graph .status").inner_text().startswith("Chosen: ")
    link = panel.get_by_role("link")
    assert link.all_inner_texts() == ["https://example.org/thread/1"], "only an address of the web is a link"
    page.keyboard.press("Escape")
    assert panel.is_hidden()


def test_the_finding_of_the_whole_model_opens(open_report: Open, report: Report) -> None:
    page = open_report(report)
    page.locator("#findings").get_by_role("button", name="whole model").click()
    assert page.inner_text("#detail-title") == "whole model"
    assert "join them" in page.inner_text("#detail")


def test_keys_walk_a_table_and_come_back_to_it(open_report: Open, report: Report) -> None:
    page = open_report(report)
    table = page.get_by_role("grid", name="Operations")
    table.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.locator("#operations tr.active").get_attribute("data-row") == "1"
    page.keyboard.press("End")
    active = page.locator("#operations tr.active")
    assert active.get_attribute("data-row") == "159"
    assert table.get_attribute("aria-activedescendant") == active.get_attribute("id")
    assert active.get_attribute("aria-rowindex") == table.get_attribute("aria-rowcount") == "161"
    box, frame = active.bounding_box(), page.locator("#operations .scroller").bounding_box()
    assert box is not None
    assert frame is not None
    assert frame["y"] <= box["y"] <= frame["y"] + frame["height"] - box["height"], "the row is in sight"
    page.keyboard.press("Enter")
    assert page.inner_text("#detail-title") == report.nodes[159].name
    assert focus_in(page) == "detail"
    page.keyboard.press("Escape")
    assert focus_in(page) == "TABLE.rows"


def test_the_keyboard_reaches_everything_in_order(open_report: Open, report: Report) -> None:
    page = open_report(report)
    reached: list[str] = []
    while reached[-1:] != ["BODY"]:
        page.keyboard.press("Tab")
        where: str = page.evaluate(
            "(one => one.closest('section, header')?.id || one.className || one.tagName)(document.activeElement)"
        )
        reached += [where] if reached[-1:] != [where] else []
    assert reached[0] == "skip"
    assert [one for one in reached if one in SECTIONS] == list(SECTIONS)[:-1], "the notes hold nothing to press"


def test_the_graph_is_walked_and_searched(open_report: Open, report: Report) -> None:
    page = open_report(report)
    canvas = page.locator("#graph canvas[role=application]")
    status = page.locator("#graph .status")
    canvas.focus()
    page.keyboard.press("ArrowDown")
    assert status.inner_text().startswith("Chosen: input ")
    page.keyboard.press("ArrowDown")
    assert report.nodes[1].name in status.inner_text()
    assert page.locator("#detail").is_hidden(), "walking opens nothing"
    page.keyboard.press("Enter")
    assert page.inner_text("#detail-title") == report.nodes[1].name
    page.keyboard.press("Escape")
    assert focus_in(page) == "CANVAS."
    search = page.get_by_placeholder("name or operation")
    search.fill("gelu_27")
    assert page.inner_text("#graph output") == "1 match"
    search.press("Enter")
    assert page.inner_text("#detail-title") == "model/encoder/layer.1/gelu_27"


def test_a_click_in_the_graph_chooses_the_operation_there(open_report: Open, report: Report) -> None:
    page = open_report(report)
    page.get_by_placeholder("name or operation").fill("gelu_27")  # brings it into the middle
    canvas = page.locator("#graph canvas[role=application]")
    canvas.scroll_into_view_if_needed()
    canvas.click()
    assert page.inner_text("#detail-title") == "model/encoder/layer.1/gelu_27"
    page.keyboard.press("Escape")
    canvas.hover()
    assert "gelu model/encoder/layer.1/gelu_27" in page.inner_text("#graph .tip")


def test_dragging_and_zooming_move_the_graph(open_report: Open, report: Report) -> None:
    page = open_report(report)
    canvas = page.locator("#graph canvas[role=application]")
    canvas.scroll_into_view_if_needed()
    pictures = [canvas.screenshot()]
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 260, box["y"] + 120, steps=4)
    page.mouse.up()
    pictures.append(canvas.screenshot())
    for name in ("Zoom in", "Show the whole graph"):
        page.locator("#graph").get_by_role("button", name=name).click()
        page.mouse.move(0, 0)
        pictures.append(canvas.screenshot())
    assert len(set(pictures)) == 4
    assert page.locator("#detail").is_hidden(), "dragging chooses nothing"


@pytest.mark.parametrize("mode", ["divergence", "time"])
def test_the_graph_is_coloured_otherwise(open_report: Open, report: Report, mode: str) -> None:
    page = open_report(report)
    canvas = page.locator("#graph canvas[role=application]")
    before = canvas.screenshot()
    page.get_by_label("Colour by").select_option(mode)
    assert canvas.screenshot() != before
    words = {"divergence": "saturation", "time": "≥ 50 % of the longest"}
    assert words[mode] in page.inner_text("#graph .legend")


def test_the_timeline_goes_from_layer_to_layer(open_report: Open, report: Report) -> None:
    page = open_report(report)
    status = page.locator("#timeline .status")
    page.locator("#timeline canvas").focus()
    for layer in report.targets[0].timeline[:2]:
        page.keyboard.press("ArrowRight")
        name = report.nodes[layer.nodes[0]].name if layer.nodes else "call of program 1"
        words = f"{name}; {layer.kind} {layer.layer} on {layer.engine}, program {layer.segment + 1}; "
        assert status.inner_text().startswith(words)
    page.keyboard.press("Enter")
    assert page.inner_text("#detail-title") == report.nodes[0].name
    page.keyboard.press("Escape")
    page.get_by_text("Layers as a table").click()
    assert page.locator("#timeline output").inner_text() == f"{len(report.targets[0].timeline)} rows"


def test_memory_goes_from_value_to_value(open_report: Open, report: Report) -> None:
    page = open_report(report)
    page.locator("#memory canvas").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    memory = report.targets[0].memory
    assert memory is not None
    second = [one for one in memory.allocations if one.memory == "L2"][1]
    words = page.locator("#memory .status").inner_text()
    assert words.startswith(f"{second.value}: {second.state.replace('_', ' ')}; ")
    assert words.endswith(f"steps {second.first} to {second.last}")
    states = {one.state.replace("_", " ") for one in memory.allocations}
    assert states <= set(page.locator("#memory .legend li").all_inner_texts())


def test_a_cell_of_the_heat_shows_its_differences(open_report: Open, report: Report) -> None:
    page = open_report(report)
    wanted = report.divergences[2]
    op = wanted.differences[0].op
    page.locator("#divergence .heat tbody tr", has_text=op).get_by_role("button").nth(1).click()
    expected = sum(one.op == op for one in wanted.differences)
    page.locator("#divergence output", has_text=f"{expected} of").wait_for()
    assert rows(page, "divergence").count() == expected
    assert set(column(page, "divergence", 2)) == {op}
    assert page.locator("#divergence .more select").evaluate("one => one.selectedIndex") == 2
    rows(page, "divergence").first.click()
    assert page.locator("#detail").is_visible()


def test_the_theme_button_changes_page_and_drawings(open_report: Open, report: Report) -> None:
    page = open_report(report)
    colours: list[str] = []
    pictures: list[bytes] = []
    for expected in ("light", "dark"):
        page.click("#theme")
        assert page.inner_text("#theme") == f"Theme: {expected}"
        colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        pictures.append(page.locator("#timeline canvas").screenshot())
    assert colours == ["rgb(244, 245, 247)", "rgb(20, 23, 28)"]
    assert pictures[0] != pictures[1]


def test_hostile_names_stay_text(open_report: Open) -> None:
    made = sample_report(400, 2)
    page = open_report(made)
    names = {number: node.name for number, node in enumerate(made.nodes) if node.name in HOSTILE}
    assert set(names.values()) == set(HOSTILE)
    for number, name in names.items():
        page.locator("#operations .scroller").evaluate("(one, row) => { one.scrollTop = row * 30; }", number)
        page.locator(f"#operations tr[data-row='{number}']").click()
        assert page.text_content("#detail-title") == (name or f"unnamed, number {number}")
        page.keyboard.press("Escape")
    page.locator("#graph").get_by_role("button", name="Show the whole graph").click()
    assert page.evaluate("window.broken") is None
    assert page.evaluate("document.images.length") == 0


def test_a_report_of_nothing_opens(open_report: Open) -> None:
    page = open_report(Report("empty", "graph", nodes=(), targets=()))
    assert page.inner_text("#chips-body") == "No chip was asked for."
    assert page.locator("main > section").count() == 2
    page = open_report(Report("empty", "graph", nodes=(), targets=(bare(()),)))
    assert "No findings" in page.inner_text("#findings")
    page.locator("#graph canvas[role=application]").focus()
    for key in ("ArrowDown", "0", "+", "Home", "End", "Enter"):
        page.keyboard.press(key)


def test_one_operation_without_a_program_opens(open_report: Open) -> None:
    node = Node("x", "input", "fp16", (), (), None)
    page = open_report(Report("one", "graph", nodes=(node,), targets=(bare(("native",)),)))
    rows(page, "operations").first.click()
    assert "fp16, scalar" in page.inner_text("#detail")
    assert "No findings on Chip" in page.inner_text("#detail")


def test_only_rows_in_sight_are_elements(open_report: Open) -> None:
    made = sample_report(20_000, 1)
    page = open_report(made)
    table = page.get_by_role("grid", name="Operations")
    assert table.get_attribute("aria-rowcount") == "20001"
    assert rows(page, "operations").count() < 60
    page.locator("#operations .scroller").evaluate("one => { one.scrollTop = 15000 * 30; }")
    page.wait_for_selector("#operations tr[data-row='15005']")
    assert rows(page, "operations").count() < 60
    page.locator("#operations th", has_text="Name").get_by_role("button").click()
    assert page.locator("#operations tr[data-row]").first.is_visible()
    page.fill("#operations input[type=search]", "gelu_19997")
    assert rows(page, "operations").count() == 1


def test_a_damaged_file_says_so(browser: Browser, report: Report, tmp_path: Path) -> None:
    path = tmp_path / "damaged.html"
    path.write_text(html(report).replace('id="block-1">', 'id="block-1">AAAA'), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    assert page.inner_text("#problem").startswith("This report could not be opened: ")
    page.close()


def test_a_script_that_was_not_there_at_first_cannot_run(browser: Browser, report: Report, tmp_path: Path) -> None:
    path = tmp_path / "added.html"
    added = '<script>window.broken = 1</script><img src="x" onerror="window.broken = 2">'
    path.write_text(html(report).replace("<main", f"{added}<main", 1), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    assert page.evaluate("window.broken") is None
    page.close()


def test_tasks_stand_beside_their_layers_and_link_both_ways(open_report: Open, report: Report) -> None:
    page = open_report(report)
    emission = report.targets[0].emission
    assert emission is not None
    summary = page.inner_text("#tasks-body > p")
    assert summary.startswith(f"{len(emission.tasks)} tasks of ")
    assert f"{len(emission.refused)} layers without a known program" in summary
    page.set_viewport_size({"width": 1280, "height": 900})
    assert page.locator("#tasks .scroller").first.evaluate("one => one.scrollWidth <= one.clientWidth")
    assert page.locator("#tasks-body table").nth(1).locator("tr[data-row] td:nth-child(4)").first.inner_text() == (
        "ANE-EMIT-001"
    )
    rows(page, "tasks").first.click()
    task = emission.tasks[0]
    assert page.inner_text("#detail-title") == report.nodes[task.nodes[0]].name
    assert f"task {task.task}: {task.computes}" in page.inner_text("#detail-body")
    page.get_by_role("button", name="Show the tasks").click()
    assert page.locator("#detail").is_hidden()
    assert page.locator("#tasks tr.active td:nth-child(2)").inner_text() == str(task.task)
    page.select_option("#target", "2")
    page.locator("#tasks-body > p", has_text="ANE-EMIT-010").wait_for()
    assert rows(page, "tasks").count() == 0
