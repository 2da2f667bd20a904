"""The written forms of a report, by the words that choose them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.errors import UnknownNameError
from aneforge.packages import expect_package

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from aneforge.report.gate import Threshold
    from aneforge.report.model import Report, UnreadModel

__all__ = ["FORMS", "JOINED", "join_form", "refuse_form", "written_form"]


def as_json(report: Report) -> str:
    """Return the report itself."""
    from aneforge.report.written import report_to_json  # noqa: PLC0415 - loaded when it is needed

    return report_to_json(report)


def as_sarif(report: Report) -> str:
    """Return SARIF 2.1.0."""
    from aneforge.report.sarif import sarif  # noqa: PLC0415 - loaded when it is needed

    return sarif(report)


def as_csv(report: Report) -> str:
    """Return every verdict as CSV."""
    from aneforge.report.tables import csv_text  # noqa: PLC0415 - loaded when it is needed

    return csv_text(report)


def as_html(report: Report) -> str:
    """Return a page for a browser."""
    from aneforge.report.html.page import html  # noqa: PLC0415 - it needs jinja2

    return html(report)


def as_trace(report: Report) -> str:
    """Return a Chrome trace."""
    from aneforge.report.trace import chrome_trace  # noqa: PLC0415 - loaded when it is needed

    return chrome_trace(report)


PLAIN: Mapping[str, Callable[[Report], str]] = {
    "json": as_json,
    "sarif": as_sarif,
    "csv": as_csv,
    "html": as_html,
    "trace": as_trace,
}
PASSED, FAILED = "passed", "failed"
MARKDOWN, JUNIT, NETRON = "markdown", "junit", "netron"
FORMS = (*PLAIN, MARKDOWN, JUNIT, NETRON)
JOINED = ("sarif", JUNIT)
"""Forms whose files hold the reports of several models."""


def refuse_form(form: str, model: str | Path | None = None) -> None:
    """Refuse a form that could not be made of a model, before the model is checked for it.

    Raises:
        GraphError: Verdicts are to be written into a model that is not an ONNX file.
        ImportError: A package that the form needs is not installed; the message has the line that installs it.
    """
    if form == "html":
        expect_package("jinja2")
    if form == NETRON:
        from aneforge.report.netron import expect_onnx_file  # noqa: PLC0415 - loaded when it is needed

        expect_onnx_file(model)


def written_form(
    form: str,
    report: Report,
    model: str | Path | None = None,
    threshold: Threshold | None = None,
    baseline: Report | None = None,
) -> str | bytes:
    """Return a report in one of its forms; the model file is needed for only its copy with verdicts.

    >>> import aneforge as af
    >>> from aneforge.report import check
    >>> report = check(af.input((1, 4), name="x").relu(), af.targets.Family.A13)
    >>> written_form("csv", report).splitlines()[2].split(",")[2:4]
    ['relu_1', 'relu']

    Raises:
        UnknownNameError: There is no such form.
        GraphError: The model is not an ONNX file, so that no verdict can be written into it.
        ImportError: A package that the form needs is not installed.
    """
    if form == MARKDOWN:
        from aneforge.report.gate import outcome  # noqa: PLC0415 - loaded when it is needed
        from aneforge.report.tables import markdown  # noqa: PLC0415 - as above

        return markdown(report, outcome(report, threshold, baseline))
    if form == JUNIT:
        from aneforge.report.junit import junit  # noqa: PLC0415 - loaded when it is needed

        return junit(report, threshold, baseline)
    if form == NETRON:
        from aneforge.report.netron import with_verdicts  # noqa: PLC0415 - it needs onnx

        return with_verdicts(report, model)
    if form not in PLAIN:
        raise UnknownNameError.of("form of a report", form, FORMS)
    return PLAIN[form](judge(report, threshold, baseline))


def join_form(
    form: str,
    reports: Sequence[Report],
    threshold: Threshold | None = None,
    baseline: Report | None = None,
    unread: Sequence[UnreadModel] = (),
) -> str:
    """Return the reports of several models as one file of a form of `JOINED`, and why others could not be checked."""
    if form == JUNIT:
        from aneforge.report.junit import junit_of_all  # noqa: PLC0415 - loaded when it is needed

        return junit_of_all(reports, threshold, baseline, unread)
    from aneforge.report.sarif import sarif_of_all  # noqa: PLC0415 - loaded when it is needed

    return sarif_of_all([judge(report, threshold, baseline) for report in reports], unread)


def judge(report: Report, threshold: Threshold | None, baseline: Report | None) -> Report:
    """Return a report with its outcome and its verdict, where thresholds say what it must pass."""
    if threshold is None:
        return report
    from aneforge.report.gate import outcome  # noqa: PLC0415 - loaded when it is needed
    from aneforge.report.headline import verdict_line  # noqa: PLC0415 - as above

    result = outcome(report, threshold, baseline)
    return replace(report, outcome=PASSED if result.ok else FAILED, verdict=verdict_line(report, result))
