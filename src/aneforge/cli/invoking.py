"""`aneforge invoker install`: the executables through which other programs run network descriptions."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the types of parameters
from typing import Annotated

import typer

from aneforge.targets.names import EXAMPLES

__all__ = ["install"]


def install(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="The folder in which clients look for them.", show_default=False, readable=False
        ),
    ],
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            "-t",
            metavar="NAME",
            help="Target that they compile for if ANEFORGE_TARGET is not set: {large}, {pro}, {family}.".format(
                **EXAMPLES
            ),
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write the invokers sdpa_invoker, layer_invoker, rank_invoker and persistent_worker into a folder.

    A program that starts them to run network descriptions on a Neural Engine runs them on the software engine instead,
    whatever its own interpreter and environment are.

    Examples:
    aneforge invoker install ~/.cache/aneforge/bin

    aneforge invoker install bin -t {new}
    """
    from aneforge.cli.terminal import console, print_wrapped  # noqa: PLC0415 - loaded when it is needed
    from aneforge.runtime.dispatch.invoker_scripts import install_invokers  # noqa: PLC0415 - as above

    out = console()
    for path in install_invokers(folder, target):
        print_wrapped(out, f"wrote {path}")
