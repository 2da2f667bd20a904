"""`aneforge check`: one model on several targets."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aneforge.cli import arguments as given
from aneforge.errors import GraphError
from aneforge.targets.names import EXAMPLES

if TYPE_CHECKING:
    from aneforge.report.gate import Outcome, Threshold
    from aneforge.report.model import Report, UnreadModel

__all__ = ["check"]

STDOUT = "-"


def check(
    models: given.Models,
    target: given.Targets = None,
    shape: given.Shapes = None,
    inputs: given.Inputs = None,
    max_abs: given.MaxAbs = None,
    function: given.Function = None,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep",
            help="Also follow value ranges through the compiled programs, and where chips are compared; slower.",
        ),
    ] = False,
    placement: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Show where operations would run: coreml or direct.", show_default=False),
    ] = None,
    path: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="How the model reaches the engine: direct, or coreml, which runs on the CPU or GPU what the engine "
            "does not take. [default: coreml for Core ML's own files, else direct]",
            show_default=False,
        ),
    ] = None,
    opt: given.Opt = None,
    compress: given.Compress = None,
    rescale: Annotated[bool, typer.Option("--rescale", help="Show what scaling by powers of two would gain.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on reject, oversize, decompose and warn.")] = False,
    fail_on: Annotated[
        str | None,
        typer.Option(
            metavar="WORDS",
            help="Findings that make the check fail, separated by commas: reject, oversize, decompose, warn, info, "
            "saturation, divergence, or none. [default: reject,oversize]",
            show_default=False,
        ),
    ] = None,
    evidence: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Fail only on findings with at least this evidence: measured, decoded or inferred. All findings are "
            "listed. [default: any]",
            show_default=False,
        ),
    ] = None,
    min_native: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, metavar="SHARE", help="Smallest share of operations that must be native, 0 to 1."
        ),
    ] = 0.0,
    max_latency: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[CHIP=]TIME",
            help="Longest predicted time of a call: 2ms, {new}=800us. May be repeated.".format(**EXAMPLES),
            show_default=False,
        ),
    ] = None,
    max_memory: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[CHIP=]BYTES",
            help="Largest memory for weights and on-chip peak together: 8MB. May be repeated.",
            show_default=False,
        ),
    ] = None,
    min_exact: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[CHIP=]SHARE",
            help="Smallest share of layers whose bits are known to be exact, 0 to 1. May be repeated.",
            show_default=False,
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="REPORT.json",
            help="An earlier report (JSON): findings that it has do not fail the check.",
            show_default=False,
            readable=False,
        ),
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", help="Write the report; - prints it.", show_default=False, readable=False
        ),
    ] = None,
    sarif: Annotated[
        Path | None,
        typer.Option("--sarif", metavar="FILE", help="Write SARIF 2.1.0.", show_default=False, readable=False),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="Write JUnit XML.", show_default=False, readable=False),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option("--markdown", metavar="FILE", help="Write Markdown.", show_default=False, readable=False),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", help="Write every verdict as CSV.", show_default=False, readable=False),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write an HTML page.", show_default=False, readable=False),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace", metavar="FILE", help="Write the timeline as a Chrome trace.", show_default=False, readable=False
        ),
    ] = None,
    netron: Annotated[
        Path | None,
        typer.Option(
            "--netron",
            metavar="FILE.onnx",
            help="Write the ONNX model with verdicts in its nodes.",
            show_default=False,
            readable=False,
        ),
    ] = None,
    github: Annotated[
        bool, typer.Option("--github", help="Print annotation lines for a CI log instead of the tables.")
    ] = False,
    force: given.Force = False,
    scheduler: given.Scheduler = None,
    workers: given.Workers = None,
    most: Annotated[int, typer.Option(min=0, help="Number of findings to print; files have all of them.")] = 5,
    verbose: given.Verbose = False,
    quiet: given.Quiet = False,
) -> None:
    """Say whether a model runs on the Neural Engine of some chips, why not, what to change, and how fast it is.

    Without --target it is every chip that is sold and runs MIL programs. --strict here makes more findings count;
    compile --strict refuses a model that does not run as it is written, as af.compile does. Of several models one
    that cannot be read is an error of its own, and the others are checked. Names of files may hold {{model}}, which
    stands for the name of each; SARIF and JUnit of all models may be one file. Several lengths of an open dimension
    are checked one by one: --shape tokens=32:128:512.

    Exit codes: 0 passed, 1 failed on findings or a budget (the last line says on which), 2 bad input or usage, 3
    internal error. Of several models it is the largest. What the compiler has to split (oversize) runs, but not as it
    is written, and Core ML would not run it on the engine: it fails a check, however little it costs, unless
    --fail-on reject is given.

    Examples:
    aneforge check model.onnx

    aneforge check a.onnx b.onnx --max-latency {new}=1ms --html "{{model}}.html"

    aneforge check model.onnx -t {old},{pro} --html report.html

    aneforge check model.onnx -t all --strict --baseline known.json --sarif findings.sarif

    aneforge check zoo/*.onnx --workers 4 --sarif zoo.sarif

    aneforge check model.mlpackage --inputs sample.npz --fail-on reject,oversize,saturation

    aneforge check model.onnx -t all --evidence measured
    """
    from aneforge.cli.several_models import (  # noqa: PLC0415 - loaded when it is needed
        MODEL_NAME,
        Results,
        expect_own_names,
        own_name,
    )
    from aneforge.commands.checking import CheckOptions, CheckTask  # noqa: PLC0415 - as above
    from aneforge.report.forms import JOINED  # noqa: PLC0415 - as above
    from aneforge.report.gate import (  # noqa: PLC0415 - as above
        MAX_LATENCY,
        MAX_MEMORY,
        MIN_EXACT,
        STRICT,
        Threshold,
        evidence_word,
        fail_on_words,
        outcome,
    )
    from aneforge.report.model import UnreadModel  # noqa: PLC0415 - as above
    from aneforge.report.written import load_report  # noqa: PLC0415 - as above

    wanted = {"json": json, "sarif": sarif, "junit": junit, "markdown": markdown, "csv": csv, "html": html,
             "trace": trace, "netron": netron}  # fmt: skip
    named = {form: path for form, path in wanted.items() if path is not None}
    joined = {
        form: path for form, path in named.items()
        if len(models) > 1 and form in JOINED and MODEL_NAME not in str(path)
    }  # fmt: skip
    own = {form: path for form, path in named.items() if form not in joined}
    for form, file in own.items():
        expect_own_names(f"--{form}", str(file), models)
    files = {model: {form: Path(own_name(path, model)) for form, path in own.items()} for model in models}
    for model in models:
        refuse_files({**files[model], **joined}, model, force=force)
    words = fail_on_words(fail_on) if fail_on is not None else Threshold().fail_on
    threshold = Threshold(
        tuple(dict.fromkeys((*words, *(STRICT if strict else ())))),
        min_native,
        None if evidence is None else evidence_word(evidence),
        (
            *given.parse_budgets(MAX_LATENCY, max_latency),
            *given.parse_budgets(MAX_MEMORY, max_memory),
            *given.parse_budgets(MIN_EXACT, min_exact),
        ),
    )
    known = load_report(baseline) if baseline is not None else None
    buckets = given.parse_buckets(shape)
    if len(buckets) > 1 and named:
        raise GraphError(
            "a file holds the report for one length", seen=shape, remedy="run the command once for each length"
        )
    options = CheckOptions(
        function=function,
        samples=given.read_arrays(inputs) if inputs is not None else None,
        ranges=given.parse_magnitudes(max_abs),
        deep=deep or ("saturation" in words and inputs is None and not max_abs),
        placement=placement,
        path=path,
        rescale=rescale,
        tasks=html is not None,
        opt=given.parse_level(opt),
        compress=compress,
    )
    tasks = [
        CheckTask(
            model,
            given.parse_targets(target),
            replace(options, shapes=given.parse_shapes(bucket), name=bucket_name(model, bucket, buckets)),
        )
        for model in models
        for bucket in buckets
    ]
    results = Results(tasks, scheduler, workers, "reading the model")
    reports: list[Report] = []
    passed: list[bool] = []
    for number, report in results:
        model = tasks[number].model
        expect_budgets_used(report, threshold)
        result = outcome(report, threshold, known)
        printed = write_files(report, files[model], model, threshold, known)
        if not quiet and not printed:
            if reports and not github:
                typer.echo("")
            show(report, result, most=most, verbose=verbose, github=github)
        passed.append(result.ok)
        reports.append(report)
    unread = [
        UnreadModel(tasks[number].model.name, str(tasks[number].model), reason) for number, reason in results.errors
    ]
    write_joined(reports, joined, threshold, known, unread)
    raise typer.Exit(max(results.code, 0 if all(passed) else 1))


def bucket_name(model: Path, bucket: list[str], buckets: list[list[str]]) -> str | None:
    """Return what a report of one of several lengths is called; None where there is one."""
    return None if len(buckets) == 1 else f"{model.name} ({', '.join(bucket)})"


def expect_budgets_used(report: Report, threshold: Threshold) -> None:
    """Refuse budgets of targets that are not checked: they would never be exceeded.

    Raises:
        GraphError: There is one.
    """
    checked = {one.target for one in report.targets}
    for budget in threshold.budgets:
        if budget.target is not None and budget.target not in checked:
            raise GraphError(
                f"--{budget.option} names a target that is not checked",
                seen=budget.named or budget.target,
                remedy="name it with -t",
            )


def refuse_files(files: dict[str, Path], model: Path, *, force: bool) -> None:
    """Refuse what cannot be written before any work is done for it.

    Raises:
        GraphError: Two forms would be written over one another, a file cannot be written, is part of the model, or is
            another tool's.
    """
    if not files:
        return
    from aneforge.commands.own_files import refuse_output  # noqa: PLC0415 - loaded when it is needed
    from aneforge.report.forms import refuse_form  # noqa: PLC0415 - as above

    options: dict[str, str] = {}
    for form, path in files.items():
        printed = str(path) == STDOUT
        place = STDOUT if printed else os.path.realpath(path)  # one file has many spellings
        if place in options:
            raise GraphError(
                "only one form can be printed" if printed else "two forms would be written to the same file",
                seen=f"{options[place]} and --{form} {path}",
                remedy="write the others to files" if printed else "give each its own file",
            )
        options[place] = f"--{form} {path}"
        if not printed:
            refuse_output(path, model, force=force)
        refuse_form(form, model)


def write_files(
    report: Report, files: dict[str, Path], model: Path, threshold: Threshold, known: Report | None
) -> bool:
    """Write every form that was asked for; return whether one was printed instead."""
    if not files:
        return False
    from aneforge.report.forms import written_form  # noqa: PLC0415 - loaded when it is needed

    contents = {form: written_form(form, report, model, threshold, known) for form in files}
    printed = [write_or_print(path, contents[form]) for form, path in files.items()]
    return any(printed)


def write_joined(
    reports: list[Report],
    files: dict[str, Path],
    threshold: Threshold,
    known: Report | None,
    unread: list[UnreadModel],
) -> None:
    """Write the reports of several models as one file of each form, with those that could not be checked."""
    from aneforge.report.forms import join_form  # noqa: PLC0415 - loaded when it is needed

    for form, path in files.items():
        write_or_print(path, join_form(form, reports, threshold, known, unread))


def write_or_print(path: Path, content: str | bytes) -> bool:
    """Write a file, or print it where a dash stands for the file; return whether it was printed."""
    from aneforge.commands.outputs import save  # noqa: PLC0415 - loaded when it is needed

    if str(path) == STDOUT:
        typer.echo(content, nl=False)
        return True
    save(path, content)
    return False


def show(report: Report, result: Outcome, *, most: int, verbose: bool, github: bool) -> None:
    """Print a report."""
    if github:
        from aneforge.report.tables import annotation_lines  # noqa: PLC0415 - loaded when it is needed

        typer.echo(annotation_lines(report, result), nl=False)
        return
    from aneforge.cli.screen import show_report  # noqa: PLC0415 - loaded when it is needed

    show_report(report, result, most=most, verbose=verbose)
