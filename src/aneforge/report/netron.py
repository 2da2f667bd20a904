"""An ONNX model with our verdicts in the metadata of its nodes, so that a viewer such as Netron shows them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aneforge.errors import GraphError, Location
from aneforge.formats.detection import ModelFormat, detect_format
from aneforge.packages import expect_package

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.report.model import Report

__all__ = ["with_verdicts"]

PREFIX = "aneforge"


def with_verdicts(report: Report, model: str | Path | None) -> bytes:
    """Return the bytes of an ONNX file with verdicts and findings of every target in the metadata of its nodes.

    Weights that are in files next to the model stay there.

    Raises:
        GraphError: The report is not of an ONNX file.
        ImportError: onnx is not installed.
    """
    path = expect_onnx_file(model if report.format == ModelFormat.ONNX else None)
    import onnx  # noqa: PLC0415 - an extra

    try:
        made = onnx.load(str(path), load_external_data=False)  # pyright: ignore[reportUnknownMemberType] - its stub leaves paths open
    except OSError as error:
        raise GraphError("the model cannot be read", location=Location(str(path)), seen=error.strerror) from None
    known = metadata(report)
    for node in made.graph.node:
        for name in (node.name, *node.output):
            if name in known:
                for key, value in known[name].items():
                    node.metadata_props.add(key=key, value=value)
                break
    return made.SerializeToString()


def expect_onnx_file(model: str | Path | None) -> Path:
    """Return the path of a model into which verdicts can be written.

    Raises:
        GraphError: It is not an ONNX file.
        ImportError: onnx is not installed.
    """
    found = "graph" if model is None else detect_format(Path(model))
    if model is None or found is not ModelFormat.ONNX:
        raise GraphError(
            "verdicts can be written only into ONNX models", seen=str(found), remedy="use --html to see a graph"
        )
    expect_package("onnx")
    return Path(model)


def metadata(report: Report) -> Mapping[str, Mapping[str, str]]:
    """Return what is to say of every node, by the node's name: the verdict on each target, and the worst finding.

    A node of the file may have become several operations; the worst verdict of them counts.
    """
    order = ("native", "decompose", "oversize", "reject")
    found: dict[str, dict[str, str]] = {}
    for target in report.targets:
        texts = {one.node: f"{one.rule}: {one.message} Remedy: {one.remedy}" for one in reversed(target.findings)}
        for number, (node, verdict) in enumerate(zip(report.nodes, target.verdicts, strict=True)):
            entry = found.setdefault(node.name, {})
            key = f"{PREFIX}.{target.target}"
            if order.index(verdict) >= order.index(entry.get(key, "native")):
                entry[key] = verdict
                if number in texts:
                    entry[f"{key}.finding"] = texts[number]
    return found
