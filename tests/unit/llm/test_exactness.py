"""Comparisons of sides: what is said of tokens, margins, flips and layers; exports; the commands."""

from __future__ import annotations

import io
import json
import math
import re
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
import tokenizers
import torch

import aneforge as af
from aneforge.cli.main import run
from aneforge.errors import GraphError, NotSupportedError, UnknownNameError
from aneforge.formats.mil.program import load_mil
from aneforge.llm.exactness import Mathematics, compare_sides, perplexity
from aneforge.llm.model_export import export_model
from aneforge.llm.planning import read_decoder
from llm_folders import build_reference, reference_logits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from aneforge.llm.language_model import LanguageModel
    from aneforge.ops.types import Array

PROMPT = [3, 5, 7, 11]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("qwen3")
    build_reference("qwen3", found)
    return found


@pytest.fixture(scope="module")
def model(folder: Path) -> LanguageModel:
    return af.llm.load(folder, target="m1", context=16)


def test_the_mathematics_is_that_of_hugging_face(model: LanguageModel, tmp_path: Path) -> None:
    expected = reference_logits(build_reference("qwen3", tmp_path), PROMPT)
    found = Mathematics(model).score(PROMPT)
    assert np.abs(found - expected).max() < 2e-3 * np.abs(expected).max()


def test_a_chip_is_compared_with_the_mathematics(model: LanguageModel) -> None:
    found = model.compare(Mathematics(model), PROMPT, max_new_tokens=4)
    assert [one.position for one in found.tokens] == [4, 5, 6, 7]
    assert [one.token for one in found.tokens] == model.generate(PROMPT, max_new_tokens=4)
    assert 0 < found.largest_difference < 0.05
    assert found.first_flip is None
    assert found.began_at is None


class Shifted:
    """A side that adds to the logit of one token at one place, and to the residual from one layer on."""

    label = "shifted"

    def __init__(self, model: LanguageModel) -> None:
        self.model = model

    def follow(self, prompt: Sequence[int], tokens: Sequence[int]) -> Array:
        """Return logits, of which one is changed."""
        found = self.model.follow(prompt, tokens)
        found[2, 33] += 100
        return found

    def trace(self, ids: Sequence[int]) -> Array:
        """Return residuals, changed from layer 1 on."""
        found = self.model.trace(ids)
        found[1] += 1
        return found

    def score(self, ids: Sequence[int]) -> Array:
        """Return logits as they are."""
        return self.model.score(ids)


def test_a_flip_is_found_at_its_place_with_the_layer_where_it_began(model: LanguageModel) -> None:
    found = model.compare(Shifted(model), PROMPT, max_new_tokens=4)
    flip = found.first_flip
    assert flip is not None
    assert (flip.position, flip.other_token) == (6, 33)
    assert flip.other_margin > 90
    assert found.began_at == 1
    assert found.layers[0] == 0
    assert "first flip at position 6" in str(found)


def test_two_chips_are_compared(model: LanguageModel) -> None:
    found = model.divergence("m4", PROMPT, max_new_tokens=3)
    assert (found.label, found.other, len(found.tokens)) == ("m1", "m4", 3)
    assert found.largest_difference > 0


def test_an_encoding_is_compared_with_another(model: LanguageModel) -> None:
    with model.for_target("m1", "int4") as encoded:
        assert encoded.label == "m1 int4"
        found = model.compare(encoded, PROMPT, max_new_tokens=3)
    assert found.largest_difference > 0.05


def test_nothing_to_compare_is_an_error(model: LanguageModel) -> None:
    with pytest.raises(GraphError, match="no tokens to compare"):
        compare_sides(model, model, PROMPT, [], np.zeros((0, 160)))


def test_perplexity_is_that_of_torch(model: LanguageModel) -> None:
    text = [*range(20, 36)]
    logits = torch.tensor(Mathematics(model).score(text)[:-1])
    expected = math.exp(torch.nn.functional.cross_entropy(logits, torch.tensor(text[1:])).item())
    assert perplexity(Mathematics(model), text, 16) == pytest.approx(expected, rel=1e-5)
    assert perplexity(model, text, 16) == pytest.approx(expected, rel=5e-3)


def test_a_package_has_both_functions_over_one_file_of_weights(model: LanguageModel, tmp_path: Path) -> None:
    found = export_model(model, tmp_path / "small.mlpackage", lengths=(8, 16))
    alone = export_model(model, tmp_path / "alone.mlpackage", lengths=(8,))
    assert found.functions == ("prefill_8", "prefill_16", "decode")
    assert found.weight_bytes < alone.weight_bytes * 1.1
    read = af.from_mlpackage(found.paths[0], function="decode")
    assert set(read.outputs) >= {"logits_0", "keys_0_next"}
    model.prefill(PROMPT)
    rows = model.weights.embed([9], 4)
    inputs = {"hidden": rows, **model.step_program().place(4), **model.cache.buffers}
    expected = model.step(9)
    compiled = af.compile_multi(read, target="m1")
    assert np.array_equal(compiled(**{name: inputs[name] for name in compiled.inputs})["logits_0"][0], expected)


def test_the_cache_is_states_where_that_is_asked_for(model: LanguageModel, tmp_path: Path) -> None:
    export_model(model, tmp_path / "states.mlpackage", lengths=(8,), cache="states")
    read = af.from_mlpackage(tmp_path / "states.mlpackage", function="decode")
    assert set(read.states) == {"keys_0", "values_0", "keys_1", "values_1"}


def test_states_that_the_engine_would_not_load_are_exported(tmp_path: Path) -> None:
    build_reference("llama", tmp_path, num_hidden_layers=1)
    with af.llm.load(tmp_path, target="m4", context=16) as narrow:
        written = export_model(narrow, tmp_path / "s.mlpackage", lengths=(8,), cache="states")
    assert "refused by the engine's compiler" in written.cache


def test_mil_text_is_written_to_a_folder(model: LanguageModel, tmp_path: Path) -> None:
    export_model(model, tmp_path / "mil", lengths=(8,))
    assert {"hidden", "last"} == set(load_mil(tmp_path / "mil").graph("prefill_8").inputs)


def test_mil_text_of_encoded_weights_shares_them_between_functions(folder: Path, tmp_path: Path) -> None:
    with af.llm.load(folder, target="m4", context=16, compress="int8") as encoded:
        export_model(encoded, tmp_path / "mil", lengths=(8,))
    _, *functions = (tmp_path / "mil" / "model.mil").read_text(encoding="utf-8").split("    func ")
    assert [one.partition("<")[0] for one in functions] == ["prefill_8", "decode"]
    line = re.compile(r"constexpr_affine_dequantize\(\).*quantized_data = (tensor<int8, .*?uint64\(\d+\)\))")
    prefill, decode = (set(line.findall(one)) for one in functions)
    assert len(prefill) >= 7 * len(encoded.config.layers)
    assert prefill == decode


def test_wrong_exports_are_refused(model: LanguageModel, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="limit 16"):
        export_model(model, tmp_path / "x.mlpackage", lengths=(17,))
    with pytest.raises(UnknownNameError, match="ports"):
        export_model(model, tmp_path / "x.mlpackage", cache="port")


def test_what_the_target_does_not_run_is_not_exported(tmp_path: Path) -> None:
    build_reference("llama", tmp_path, num_hidden_layers=1, max_position_embeddings=32768)
    with af.llm.load(tmp_path, target="m1", context=17000) as long, pytest.raises(NotSupportedError) as caught:
        export_model(long, tmp_path / "x.mlpackage", lengths=(8,))
    assert "decode does not run: ANE-EXTENT-001" in str(caught.value)
    assert not (tmp_path / "x.mlpackage").exists()
    with af.llm.load(tmp_path, target="m1", context=17000) as long, pytest.raises(NotSupportedError) as caught:
        long.step_program()
    message = "a step of 1 token in a context of 17000 does not run: ANE-EXTENT-001"
    assert message in str(caught.value)
    assert ".py" not in str(caught.value)


def test_run_check_and_export_at_the_command_line(
    folder: Path, model: LanguageModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = model.generate(PROMPT, max_new_tokens=3)
    common = [str(folder), "-t", "m1", "--ids", ",".join(map(str, PROMPT)), "--tokens", "3"]
    assert run(["llm", "run", *common]) == 0
    assert capsys.readouterr().out == " ".join(map(str, expected)) + "\n"
    assert run(["llm", "run", *common, "--stream", "--temperature", "1", "--top-k", "1"]) == 0
    assert capsys.readouterr().out == " ".join(map(str, expected)) + "\n"
    assert run(["llm", "check", *common, "--json", "-"]) == 0
    answer = json.loads(capsys.readouterr().out)["answer"]
    assert answer["targets"][0]["tokens"] == expected
    assert len(answer["magnitudes"]) == 2
    export = ["llm", "export", str(folder), "-t", "m1", "-o", str(tmp_path / "q.mlpackage"), "--context", "16"]
    assert run([*export, "--by-ranges", "--ids", "1,2,3"]) == 0
    assert "prefill_16, decode" in (out := capsys.readouterr().out)
    assert "norms are the engine's own (squares of a row add up to " in out
    assert run([*export, "--ids", "1,2,3"]) == 2
    assert "a prompt does nothing in an export" in capsys.readouterr().err


def test_an_export_overwrites_only_what_was_made_here(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export = ["llm", "export", str(folder), "-t", "m1", "--context", "8", "--length", "4", "-o"]
    other, package = tmp_path / "other", tmp_path / "other.mlpackage"
    for place in (other, package):
        place.mkdir()
        (place / "weights.bin").write_text("of another tool", encoding="utf-8")
        assert run([*export, str(place)]) == 2
        assert "does not look like a file that aneforge made" in capsys.readouterr().err
        assert (place / "weights.bin").read_text(encoding="utf-8") == "of another tool"
    assert run([*export, str(other), "--force"]) == 0
    assert run([*export, str(other)]) == 0
    assert run([*export, str(folder)]) == 2
    assert "the model itself would be overwritten" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert run([*export, str(tmp_path / "file")]) == 2
    assert f"at {tmp_path / 'file'}: the folder cannot be made" in capsys.readouterr().err


def test_nothing_erases_tokens_that_are_shown_on_a_terminal(
    folder: Path, model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    assert run(["llm", "run", str(folder), "-t", "m1", "--ids", "3,5,7,11", "--tokens", "4", "--stream"]) == 0
    shown = screen.getvalue()
    tokens = model.generate(PROMPT, max_new_tokens=4)
    text = " ".join(map(str, tokens)) + "\n"
    assert text in shown
    assert "\x1b[2K" not in shown[shown.index(text) :]
    assert re.search(r"\n4 of at most 4 tokens, [\d.e+]+ tokens/s\n$", shown)


def test_an_answer_that_ends_with_the_context_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["llm", "run", str(folder), "-t", "m1", "--ids", "1,2", "--context", "5"]
    assert run([*common, "--tokens", "9"]) == 0
    shown = capsys.readouterr()
    assert len(shown.out.split()) == 4
    assert "the context of 5 tokens is full after 4 of 9; --context takes up to" in shown.err
    assert run([*common, "--tokens", "4"]) == 0
    assert "is full" not in capsys.readouterr().err
    positions = read_decoder(folder)[0].positions
    assert run([*common[:-1], str(positions), "--tokens", str(positions)]) == 0
    assert f"is full after {positions - 1} of {positions}; the model has no longer one" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--prompt", "--text"])
def test_a_file_that_is_no_text_is_one_error(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build_reference("llama", tmp_path)
    write_tokenizer(tmp_path)
    (tmp_path / "image").write_bytes(b"\x89PNG\xff")
    command = ["run"] if option == "--prompt" else ["check", "--ids", "1", "--tokens", "1"]
    assert run(["llm", command[0], str(tmp_path), "-t", "m1", *command[1:], option, str(tmp_path / "image")]) == 2
    assert "the file is not a text in UTF-8 (got byte 0x89 at 0)" in capsys.readouterr().err


def test_the_perplexity_of_a_text_sees_as_far_back_as_usual(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build_reference("llama", tmp_path)
    write_tokenizer(tmp_path)
    (tmp_path / "text").write_text("a b " * 40, encoding="utf-8")
    common = [
        "llm",
        "check",
        str(tmp_path),
        "-t",
        "m1",
        "--ids",
        "1",
        "--tokens",
        "1",
        "--text",
        str(tmp_path / "text"),
    ]
    assert run(common) == 0
    assert "(80 tokens, 80 at a time)" in " ".join(capsys.readouterr().out.split())
    assert run([*common, "--context", "32"]) == 0
    assert "(80 tokens, 32 at a time)" in " ".join(capsys.readouterr().out.split())


def write_tokenizer(folder: Path) -> None:
    library = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "?": 2}, "?"))
    library.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    library.save(str(folder / "tokenizer.json"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--ids", "1,x"], "--ids takes tokens"),
        ([], "give a prompt"),
        (["--prompt", "a", "--ids", "1"], "give a prompt"),
        (["--prompt", "a text"], "tokenizer.json"),
        (["--ids", "1", "--context", "999"], "limit 128"),
        (["--ids", "160"], "not in the vocabulary"),
        (["--ids", "1,2,3", "--context", "2"], "ask for a context of 3 (--context 3"),
        (["--ids", "1", "--residual-scale", "3"], "must be a power of two"),
        (["--ids", "1", "--residual-scale", "0"], "must be a power of two"),
        (["--ids", "1", "-t", "m9"], "does not run"),
    ],
)
def test_wrong_arguments_are_one_line(
    folder: Path, arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["llm", "run", str(folder), "-t", "m1", *arguments]) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert "Traceback" not in error
