"""`aneforge llm plan` as users meet it: the table at 80 columns, JSON, the page, exit codes, one line for a mistake."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from aneforge.cli import main

SETTINGS = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 512,
    "vocab_size": 20000,
    "max_position_embeddings": 65536,
}


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Give every command 80 columns, no colours and a folder with a model."""
    for name, value in (("COLUMNS", "80"), ("NO_COLOR", "1"), ("TERM", "dumb")):
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
    return tmp_path


def plan(*arguments: str) -> tuple[int, str]:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        code = main.run(["llm", "plan", ".", *arguments])
    return code, shown.getvalue()


def test_the_table_has_a_row_for_every_chip_and_context() -> None:
    code, text = plan("-t", "m1,m4", "--context", "128,512", "--lengths", "1,64", "--against", "gpu=1")
    assert code == 0
    assert all(len(line) <= 80 for line in text.splitlines())
    rows = [line.split() for line in text.splitlines() if line.startswith(("m1 ", "m4 "))]
    assert [(row[0], row[2]) for row in rows[:4]] == [("m1", "128"), ("m1", "512"), ("m4", "128"), ("m4", "512")]
    assert text.count("4 of 4 pairs of length and context compile") == 2
    assert "the engine pays" in text
    assert "blockwise" in text
    assert all(0 < float(row[-1]) < 5 for row in rows[:4])  # millijoules of a small model
    assert "kB of fp16 weights" in " ".join(text.split()) or "MB of fp16 weights" in " ".join(text.split())
    for number, row in enumerate(rows[:4]):  # times and rates with the interval that has both of their bounds
        (low, high), rate = map(float, row[9].strip("()").split("-")), float(row[8])
        assert low < rate < high
        assert high / low > (3.5 if number > 1 else 1.9)  # T17: steps of M4 may take twice as long
    assert "±" not in text


@pytest.mark.parametrize(("positions", "contexts"), [(300, [300]), (1024, [512]), (4096, [512, 2048])])
def test_contexts_that_are_not_given_fit_the_model(positions: int, contexts: list[int]) -> None:
    Path("config.json").write_text(json.dumps({**SETTINGS, "max_position_embeddings": positions}), encoding="utf-8")
    code, text = plan("-t", "m1", "--json", "-")
    assert code == 0
    assert [one["context"] for one in json.loads(text)["answer"]["chips"][0]["contexts"]] == contexts


def test_a_prompt_that_fits_no_context_is_refused_and_one_that_fits_some_is_told() -> None:
    code, text = plan("-t", "m1", "--context", "64,128", "--prompt", "129")
    assert code == 2
    assert "the prompt is longer than every context (got 129, limit 128)" in " ".join(text.split())
    code, text = plan("-t", "m1", "--context", "64,128", "--prompt", "100", "--lengths", "1")
    assert code == 0
    assert "m1, context 64: the prompt has 64 tokens, as many as fit" in text


def test_a_chip_that_runs_nothing_has_no_table_of_encodings() -> None:
    code, text = plan("-t", "m9", "--context", "64", "--lengths", "1")
    assert code == 1
    assert "a token" not in text


def test_a_context_that_does_not_run_is_named_with_its_rule() -> None:
    code, text = plan("-t", "m1", "--context", "32768", "--lengths", "1")
    assert code == 1
    assert "context 32768, step: ANE-EXTENT-001" in text
    assert "0 of 1 pairs" in text


def test_json_and_page_have_the_same_figures() -> None:
    code, _ = plan("-t", "m4", "--context", "256", "--json", "plan.json", "--html", "plan.html", "--encoding", "int8")
    assert code == 0
    answer: dict[str, Any] = json.loads(Path("plan.json").read_text(encoding="utf-8"))
    chip = answer["answer"]["chips"][0]
    decode = chip["contexts"][0]["decode"]
    split = decode["split"]
    assert sum(split.values()) == pytest.approx(decode["microseconds"])
    assert decode["tokens_per_second_low"] < decode["tokens_per_second"] < decode["tokens_per_second_high"]
    assert [one["verdict"] for one in chip["pairs"]] == ["legal"] * 5 + ["longer"]
    assert {one["encoding"]: one["weight_bytes"] for one in chip["encodings"]}["int8"] == chip["weight_bytes"]
    page = Path("plan.html").read_text(encoding="utf-8")
    assert f"{decode['tokens_per_second']:.3g}" in page
    assert "<script" not in page
    plan("-t", "m1", "--context", "20000", "--lengths", "1", "--html", "long.html")
    assert "m1 takes at most 16384" in Path("long.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--context", "none"), "--context takes positive integers"),
        (("--lengths", "0"), "--lengths takes positive integers"),
        (("--against", "gpu"), "--against is not of the form DEVICE=RATE"),
        (("--against", "gpu=-3"), "--against is not of the form DEVICE=RATE"),
        (("--encoding", "int3"), "no such encoding"),
        (("--context", "70000"), "longer than the positions"),
        (("-t", "m99"), "m99"),
    ],
)
def test_mistakes_are_one_message(arguments: tuple[str, ...], message: str) -> None:
    code, text = plan(*arguments)
    assert code == 2
    assert message in " ".join(text.split())
    assert "Traceback" not in text


def test_other_files_are_not_overwritten() -> None:
    Path("notes.json").write_text("{}", encoding="utf-8")
    code, text = plan("-t", "m4", "--json", "notes.json")
    assert code == 2
    assert "notes.json" in text
    assert Path("notes.json").read_text(encoding="utf-8") == "{}"
