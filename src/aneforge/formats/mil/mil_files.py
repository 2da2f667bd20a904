"""A MIL program in a folder (model.mil, and weights.bin next to it), or as a text of any name with its weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from aneforge.formats.mil.literals import scalar_of
from aneforge.formats.mil.mil_weights import MODEL_PATH
from aneforge.formats.mil.program import MilProgram
from aneforge.formats.mil.syntax import Blob, Tuple
from aneforge.formats.mil.text import MilText, mil_text, text_beside
from aneforge.whole_files import write_together

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from aneforge.compiler.retarget import Retargeted
    from aneforge.formats.mil.blob import BlobFile
    from aneforge.formats.mil.syntax import Program
    from aneforge.graph.graph import Graph, GraphLike

__all__ = ["MODEL_FILE", "WEIGHTS_FILE", "save_mil", "weights_beside", "write_mil", "write_mil_file"]

MODEL_FILE = "model.mil"
WEIGHTS_FILE = "weights.bin"


def write_mil(
    source: GraphLike | Retargeted | MilProgram | MilText | Mapping[str, Graph | Retargeted],
    directory: str | os.PathLike[str],
    *,
    port_casts: bool = False,
    rounded: bool = False,
    alignment: int = 1,
) -> Path:
    """Write a graph, its MIL text, or a program that was read, into a folder, and return the path of its model.mil.

    Graphs are written as `mil_text` says. A program that was read keeps its text except for spaces, and its weights
    files bit for bit; the options are for graphs. Either all files are written, weights first, or none.

    >>> import tempfile
    >>> import aneforge as af
    >>> from aneforge.formats.mil.program import load_mil
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_mil(af.input((1, 4), name="x").relu(), folder)
    ...     load_mil(folder).graph()
    <graph of 2 nodes: x -> y>

    Raises:
        NotSupportedError: An operation or a constant has no form in MIL.
        OSError: A file cannot be written.
    """
    folder = Path(directory)
    if isinstance(source, MilProgram):
        text, files = str(source), weights_files(source)
    else:
        made = (
            source
            if isinstance(source, MilText)
            else mil_text(source, port_casts=port_casts, rounded=rounded, alignment=alignment)
        )
        text, files = made.text, {WEIGHTS_FILE: made.weights.write_to}
    model = folder / MODEL_FILE
    write_together({**{folder / path: write for path, write in files.items()}, model: partial(write_text, text)})
    return model


def write_mil_file(source: GraphLike | Retargeted, path: str | os.PathLike[str]) -> Path:
    """Write a graph as one MIL text, and its weights next to it as NAME.weights.bin; return the path of the text.

    >>> import tempfile
    >>> import aneforge as af
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_mil_file(af.input((1, 4), name="x").relu(), f"{folder}/net.mil")
    ...     sorted(file.name for file in path.parent.iterdir())
    ['net.mil', 'net.weights.bin']

    Raises:
        NotSupportedError: An operation or a constant has no form in MIL.
        OSError: A file cannot be written.
    """
    file, weights = Path(path), weights_beside(Path(path))
    made = text_beside(source, f"{MODEL_PATH}{weights.name}")
    write_together({weights: made.weights.write_to, file: partial(write_text, made.text)})
    return file


def weights_beside(path: Path) -> Path:
    """Return the weights file of a MIL text that is not called model.mil.

    >>> weights_beside(Path("nets/cnn.mil")).name
    'cnn.weights.bin'
    """
    return path.with_suffix(".weights.bin")


Write = Callable[[BinaryIO], object]
"""A function that writes a file's content."""


def weights_files(program: MilProgram) -> dict[str, Write]:
    """Return what writes each weights file of a program, by its path relative to the program.

    Raises:
        MilError: A file is not there, or its path leaves the folder of the program.
    """
    paths = {str(scalar_of(blob.path)): blob.path.at for blob in blobs_of(program.syntax)}
    return {
        program.weights.relative(path, at): partial(copy_blob, program.weights.file(path, at))
        for path, at in paths.items()
    }


def blobs_of(program: Program) -> Iterator[Blob]:
    """Yield every reference into a weights blob."""
    for function in program.functions.values():
        for statement in function.statements:
            for argument in (*statement.arguments, *statement.attributes):
                values = argument.value.items if isinstance(argument.value, Tuple) else (argument.value,)
                yield from (value for value in values if isinstance(value, Blob))


def copy_blob(blob: BlobFile, file: BinaryIO) -> None:
    """Write a weights blob as it was read."""
    file.write(blob.content)


def write_text(text: str, file: BinaryIO) -> None:
    """Write the text of a program."""
    file.write(text.encode())


save_mil = write_mil
"""The public face's name."""
