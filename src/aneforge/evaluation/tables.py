"""Samples from Parquet and Arrow files, and the per-sample results as a Parquet file; pyarrow does both."""
# pyarrow is an extra, without types:
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.errors import GraphError, Location
from aneforge.evaluation.samples import Sample, Shard
from aneforge.evaluation.summary import FLOAT32
from aneforge.packages import expect_package
from aneforge.records import dataclass
from aneforge.whole_files import replace_when_written

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from aneforge.evaluation.labels import Labels
    from aneforge.evaluation.results import Answer, ShardResult
    from aneforge.ops.types import Array

__all__ = ["ARROW", "PARQUET", "PARQUET_MARK", "TableSource", "open_table", "write_results"]

PARQUET, ARROW = {".parquet", ".pq"}, {".arrow", ".feather", ".ipc"}
MARK, PARQUET_MARK = b"tool", b"aneforge"
"""The metadata by which a file of results says who wrote it."""
LABELS = ("label", "labels")
"""Columns that hold the labels."""
IMAGE = "bytes"
"""The field in which tables of images have the bytes of a file."""


@dataclass(frozen=True, slots=True)
class TableSource:
    """The rows of a table, read in groups."""

    path: Path
    columns: Mapping[str, str]
    """The column of every input."""
    shapes: Mapping[str, tuple[int, ...]]
    rows: int
    label_column: str | None
    labels: Sequence[int] | None

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.name

    @property
    def count(self) -> int:
        """The rows of the table."""
        return self.rows

    @property
    def identity(self) -> str:
        """Size and time of the file, the columns and the labels."""
        stat = self.path.stat()
        return f"{stat.st_size} {stat.st_mtime_ns} {dict(self.columns)} {self.label_column} {self.labels}"

    def shards(self, size: int, done: Container[int]) -> Iterator[Shard]:
        """Yield the rows that are not done, whatever groups the file has."""
        waiting: list[Sample] = []
        number = 0
        for sample in self.samples():
            waiting.append(sample)
            if len(waiting) == size:
                if number not in done:
                    yield Shard(number, tuple(waiting))
                number, waiting = number + 1, []
        if waiting and number not in done:
            yield Shard(number, tuple(waiting))

    def samples(self) -> Iterator[Sample]:
        """Yield every row."""
        wanted = [*self.columns.values(), *([self.label_column] if self.label_column else [])]
        row = 0
        for batch in record_batches(self.path, wanted):
            for values in batch:
                yield self.sample(row, values)
                row += 1

    def sample(self, row: int, values: Mapping[str, object]) -> Sample:
        """Return one row as a sample: the bytes of an image, or numbers in the shape of the input."""
        label = values[self.label_column] if self.label_column else None
        if self.labels is not None:
            label = self.labels[row]
        if label is not None and not isinstance(label, int):
            return Sample(row, str(row), problem=f"the label is not the number of a class (got {label!r})")
        arrays: dict[str, Array] = {}
        for name, column in self.columns.items():
            value = values[column]
            if isinstance(value, dict) and IMAGE in value:
                value = cast("dict[str, object]", value)[IMAGE]
            if isinstance(value, bytes):
                return Sample(row, str(row), encoded=value, label=label)
            try:
                arrays[name] = np.asarray(value).reshape(self.shapes[name])
            except (TypeError, ValueError):
                problem = f"column {column!r} does not hold numbers of the shape {list(self.shapes[name])}"
                return Sample(row, str(row), label=label, problem=problem)
        return Sample(row, str(row), arrays, label=label)


def open_table(path: Path, wanted: Mapping[str, tuple[int, ...]], labels: Labels | None) -> TableSource:
    """Open a Parquet or Arrow file for the inputs of a model.

    Raises:
        GraphError: It cannot be read, has no row, or an input has no column.
        MissingPackageError: pyarrow is not installed.
    """
    expect_package("pyarrow")
    place = Location(str(path))
    names, rows = table_header(path)
    label_column = next((name for name in LABELS if name in names and name not in wanted), None)
    columns = {name: name for name in wanted if name in names}
    others = [name for name in names if name != label_column]
    if not columns and len(wanted) == 1 and len(others) == 1:
        columns = {next(iter(wanted)): others[0]}
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise GraphError(
            "inputs have no data",
            location=place,
            seen=f"missing {', '.join(missing)}; the columns are {', '.join(names)}",
            remedy="name the columns as the inputs; the labels are the column `label`",
        )
    if not rows:
        raise GraphError("there is no sample in the data", location=place, seen="0 rows", remedy="give at least one")
    given = None if labels is None else labels.in_order([str(row) for row in range(rows)])
    return TableSource(path, columns, wanted, rows, None if labels is not None else label_column, given)


def table_header(path: Path) -> tuple[list[str], int]:
    """Return the columns and the number of rows of a table.

    Raises:
        GraphError: It cannot be read.
    """
    import pyarrow as pa  # noqa: PLC0415 - an extra
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    try:
        if path.suffix.lower() in PARQUET:
            with pq.ParquetFile(path) as file:
                return list(file.schema_arrow.names), int(file.metadata.num_rows)
        with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as file:
            counts = [file.get_batch(number).num_rows for number in range(file.num_record_batches)]
            return list(file.schema.names), sum(counts)
    except (pa.ArrowException, OSError) as error:
        seen = str(error).splitlines()[0]
        raise GraphError("the table cannot be read", location=Location(str(path)), seen=seen) from None


def record_batches(path: Path, columns: Sequence[str]) -> Iterator[list[dict[str, object]]]:
    """Yield the rows of a table in groups of bounded size."""
    import pyarrow as pa  # noqa: PLC0415 - an extra
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    if path.suffix.lower() in PARQUET:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=64, columns=list(columns)):
                yield cast("list[dict[str, object]]", batch.to_pylist())
        return
    with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as file:
        for number in range(file.num_record_batches):
            chosen = file.get_batch(number).select(list(columns))
            yield cast("list[dict[str, object]]", chosen.to_pylist())


def result_rows(shard: ShardResult, chips: Sequence[str]) -> list[tuple[object, ...]]:
    """Return the results of a shard as rows: one for every sample and side, in the order of the columns."""
    rows: list[tuple[object, ...]] = []
    for one in shard.samples:
        sample = (one.index, one.name, one.label)
        if one.reference is not None:
            rows.append((*sample, FLOAT32, *answer_cells(one.reference), None, None, None, None))
        rows += [
            (*sample, chip, *answer_cells(found.answer), found.error, found.relative, found.finite, found.bits)
            for chip, found in zip(chips, one.chips, strict=True)
        ]
    return rows


def answer_cells(answer: Answer) -> tuple[object, ...]:
    """Return the cells of an answer."""
    return list(answer.classes or ()), answer.margin, answer.metric


def write_results(path: Path, chips: Sequence[str], shards: Iterable[ShardResult]) -> None:
    """Write the results of every sample on every side as a Parquet file; the same results give the same bytes.

    Raises:
        MissingPackageError: pyarrow is not installed.
        OSError: The file cannot be written.
    """
    expect_package("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - an extra
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    kinds = {
        "sample": pa.int64(), "name": pa.string(), "label": pa.int64(), "chip": pa.string(),
        "top": pa.list_(pa.int64()), "margin": pa.float64(), "metric": pa.float64(), "error": pa.float64(),
        "relative": pa.float64(), "finite": pa.bool_(), "bits": pa.int64(),
    }  # fmt: skip
    schema = pa.schema(list(kinds.items()), metadata={MARK: PARQUET_MARK})
    with replace_when_written(path) as unfinished, pq.ParquetWriter(unfinished, schema) as writer:
        for shard in shards:
            rows = [dict(zip(kinds, row, strict=True)) for row in result_rows(shard, chips)]
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
