"""`python -m aneforge.targets`, as a user runs it."""

import subprocess
import sys

import pytest

from aneforge.targets import database
from aneforge.targets.audit import audit

COMMAND = [sys.executable, "-m", "aneforge.targets"]


def run(environment: dict[str, str], *arguments: str, columns: int = 200) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**environment, "COLUMNS": str(columns)},
    )


def test_list_fits_80_columns(clean_environment: dict[str, str]) -> None:
    result = run(clean_environment, "list", columns=80)
    assert result.returncode == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "h18g" in result.stdout


def test_list_of_a_group(clean_environment: dict[str, str]) -> None:
    result = run(clean_environment, "list", "families")
    rows = [line.split()[0] for line in result.stdout.splitlines() if line.startswith("h")]
    assert rows == ["h13", "h14", "h15", "h16s"]


def test_show_gives_values_with_evidence(clean_environment: dict[str, str]) -> None:
    result = run(clean_environment, "show", "m1")
    assert result.returncode == 0
    line = next(line for line in result.stdout.splitlines() if "hal.texture_engine" in line)
    assert "False" in line
    assert "measured on M1" in line


def test_show_names_the_disagreements_about_a_value(clean_environment: dict[str, str]) -> None:
    lines = run(clean_environment, "show", "m2").stdout.splitlines()
    line = next(line for line in lines if "datapath.width_slice_crop_x16" in line)
    assert line.split()[1:4] == ["True", "C1", "S23"]
    assert any(line.startswith("geometry.l2_bank_width") for line in lines)


def test_show_of_a_name_without_data_says_so(clean_environment: dict[str, str]) -> None:
    assert "no source gives data for it" in run(clean_environment, "show", "h20").stdout


def test_audit_counts(clean_environment: dict[str, str]) -> None:
    result = run(clean_environment, "audit")
    kinds = ", ".join(f"{number} {kind}" for kind, number in audit().targets_by_kind.items())
    assert f"{len(database().targets)} target names ({kinds})" in result.stdout
    assert "conflicts between sources" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "h17x"), "error: unknown target 'h17x'; nearest: h17"),
        (("list", "everything"), "error: unknown target group 'everything'; known: all, shipping, families, known"),
    ],
)
def test_a_wrong_name_is_one_message_and_exit_code_2(
    clean_environment: dict[str, str], arguments: tuple[str, ...], message: str
) -> None:
    result = run(clean_environment, *arguments)
    assert result.returncode == 2
    assert result.stderr.startswith(message)
    assert "Traceback" not in result.stderr
