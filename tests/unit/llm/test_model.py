"""Models that run: tokens and logits against Hugging Face in float32, and what must be equal to itself."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file  # pyright: ignore[reportUnknownVariableType]

import aneforge as af
from aneforge.errors import CheckpointError, GraphError, UnsupportedModelError
from aneforge.llm.architecture import NormSpec
from aneforge.llm.declared_weights import DeclaredWeights, is_encoded
from aneforge.llm.exactness import Mathematics
from aneforge.llm.graphs.decoder import prefill_graph
from aneforge.llm.model_export import export_model
from aneforge.llm.number_forms import ResidualRanges, choose_forms
from aneforge.llm.token_sampling import Sampling
from llm_folders import SMALL, build_reference, reference_logits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from aneforge.llm.language_model import LanguageModel
    from aneforge.ops.types import Array
    from llm_folders import HuggingFaceModel

PROMPT = [3, 5, 7, 11, 13, 100, 120, 9]
CHIPS = ("m1", "m2", "m4", "m5")


def cosine(a: Array, b: Array) -> float:
    return float(np.sum(a * b) / np.sqrt(np.sum(a * a) * np.sum(b * b)))


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    build_reference("llama", folder)
    return folder


@pytest.fixture(scope="module")
def model(llama: Path) -> LanguageModel:
    return af.llm.load(llama, target="m1", context=40)


@pytest.mark.parametrize(("kind", "chip"), [(kind, CHIPS[place % 4]) for place, kind in enumerate(sorted(SMALL))])
def test_an_architecture_gives_the_tokens_of_hugging_face(kind: str, chip: str, tmp_path: Path) -> None:
    reference = build_reference(kind, tmp_path)
    with af.llm.load(tmp_path, target=chip, context=16) as lm:
        tokens = lm.generate(PROMPT, max_new_tokens=4, end_tokens=())
        expected = reference_logits(reference, [*PROMPT, *tokens])
        rows = expected[len(PROMPT) - 1 : -1]
        lost = rows.max(1) - rows[np.arange(len(tokens)), tokens]
        # A token may differ where float32 itself hardly prefers another: memories add up what every token loses.
        assert (lost <= (0.01 if lm.recurrent else 0.0) * np.abs(rows).max(1)).all()
        assert cosine(lm.step(tokens[-1]), expected[-1]) > (0.999 if lm.recurrent else 0.9999)


def test_decoding_one_by_one_equals_a_prompt(model: LanguageModel) -> None:
    whole = model.score(PROMPT)
    rows = [model.prefill(PROMPT[:3]), *(model.step(one) for one in PROMPT[3:])]
    assert np.stack(rows) == pytest.approx(whole[2:], abs=2e-3)
    assert np.stack(rows).argmax(1).tolist() == whole[2:].argmax(1).tolist()


def test_tokens_verified_together_equal_those_run_one_by_one(model: LanguageModel) -> None:
    model.prefill(PROMPT[:4])
    rows = np.stack([model.step(one) for one in PROMPT[4:7]])
    held = {name: one.copy() for name, one in model.cache.buffers.items()}
    model.rewind(4)
    assert model.step(*PROMPT[4:7]).tobytes() == rows.tobytes()
    assert all(np.array_equal(held[name], one) for name, one in model.cache.buffers.items())


@pytest.mark.parametrize("wrong", [False, True])
def test_speculative_decoding_gives_the_greedy_tokens(model: LanguageModel, wrong: bool) -> None:  # noqa: FBT001 - a case
    greedy = model.generate(PROMPT, max_new_tokens=8, end_tokens=())

    def draft(tokens: Sequence[int], most: int) -> list[int]:
        rest = greedy[len(tokens) - len(PROMPT) :][:most]
        return [(one + wrong) % 160 for one in rest]

    logits = model.prefill(PROMPT)
    found = af.llm.generate_speculatively(model.verify, draft, PROMPT, logits, max_new_tokens=8, guesses=2)
    assert list(found.tokens) == greedy
    assert (found.runs < 7) is not wrong


def test_speculative_draws_are_those_of_plain_ones(model: LanguageModel) -> None:
    warm = Sampling(temperature=0.8, top_p=0.9, seed=5)
    plain = model.generate(PROMPT, max_new_tokens=8, end_tokens=(), sampling=warm)
    found = af.llm.generate_speculatively(
        model.verify,
        af.llm.draft_by_repetition,
        PROMPT,
        model.prefill(PROMPT),
        max_new_tokens=8,
        sampling=warm,
    )
    assert list(found.tokens) == plain != model.generate(PROMPT, max_new_tokens=8, end_tokens=())


def test_what_was_rewound_is_overwritten(model: LanguageModel) -> None:
    model.prefill(PROMPT)
    expected = model.step(17)
    model.rewind(len(PROMPT))
    model.step(99)
    model.rewind(len(PROMPT))
    assert np.array_equal(model.step(17), expected)


def test_a_padded_prompt_equals_one_that_is_not(model: LanguageModel) -> None:
    prompt = [*PROMPT, *PROMPT]
    rows = model.weights.embed(prompt, 0)
    exact, padded = model.prefill_program(16), model.prefill_program(17)
    assert (exact.tokens, padded.tokens) == (16, 32)
    assert padded.run(rows)["logits_0"] == pytest.approx(exact.run(rows)["logits_0"], abs=2e-3)


def test_a_prompt_at_once_continues_as_one_fed_token_by_token(model: LanguageModel) -> None:
    batched = model.generate(PROMPT, max_new_tokens=6, end_tokens=())
    model.cache.clear()
    logits = [model.step(one) for one in PROMPT][-1]
    fed = [int(logits.argmax())]
    while len(fed) < 6:
        fed.append(int(model.step(fed[-1]).argmax()))
    assert fed == batched


def test_two_processes_give_the_same_bits(llama: Path, model: LanguageModel) -> None:
    asked = (
        "import hashlib, aneforge as af; "
        f"lm = af.llm.load({str(llama)!r}, target='m1', context=40); "
        f"print(hashlib.sha256(lm.prefill({PROMPT}).tobytes() + lm.step(17).tobytes()).hexdigest())"
    )
    children = [subprocess.Popen([sys.executable, "-c", asked], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    here = hashlib.sha256(model.prefill(PROMPT).tobytes() + model.step(17).tobytes()).hexdigest()
    assert [one.communicate(timeout=60)[0].strip() for one in children] == [here, here]


def test_chunks_equal_the_whole_bit_for_bit(llama: Path, model: LanguageModel) -> None:
    with af.llm.load(llama, target="m1", context=40, chunk_bytes=1) as cut:
        assert [(part.first, part.last, part.head) for part in cut.parts] == [
            (0, 1, False),
            (1, 2, False),
            (2, 2, True),
        ]
        assert np.array_equal(cut.prefill(PROMPT), model.prefill(PROMPT))
        assert np.array_equal(cut.step(17), model.step(17))


@pytest.mark.parametrize("mode", ["int8", "auto"])
def test_matrices_of_layers_are_encoded_as_plans_count_them(mode: str, tmp_path: Path) -> None:
    reference = build_reference("qwen2_moe", tmp_path)
    with af.llm.load(tmp_path, target="m4", context=16, compress=mode) as lm:
        assert cosine(lm.prefill(PROMPT), reference_logits(reference, PROMPT)[-1]) > 0.999
        assert lm.encoded is not None
        matrices = [one for one in lm.encoded.held.values() if one.is_encoded]
        declared = DeclaredWeights(lm.config, "int8")
        roles = [role for role, shape in declared.shapes.items() if is_encoded(role, shape)]
        if mode == "auto":  # nothing bounds what the other projections read
            roles = [role for role in roles if not role.endswith(("down.weight", "output.weight"))]
        assert sum(one.nbytes for one in matrices) == sum(declared(role).nbytes for role in roles)
        assert f"{len(roles)} in int8 (streams)" in str(lm.encoded)
        assert lm.encoded.warnings == ()


def test_encodings_with_a_large_error_are_warned_of(llama: Path) -> None:
    with af.llm.load(llama, target="m4", context=16, compress="int4") as lm:
        lm.step_program()
        assert "compress='int4' is applied as asked: " in lm.warnings[0]
        assert "the largest 0.1" in lm.warnings[0]


def test_a_residual_beyond_fp16_is_right_when_it_is_scaled(tmp_path: Path) -> None:
    reference = build_reference("llama", tmp_path, residual=30000.0)
    expected = reference_logits(reference, PROMPT)
    with af.llm.load(tmp_path, target="m1", context=16) as plain:
        assert cosine(plain.prefill(PROMPT), expected[-1]) < 0.99
        assert "numbers became infinite on the way" in plain.cautions[0] == plain.warnings[0]
    with af.llm.load(tmp_path, target="m1", context=16, residual_scale=64) as scaled:
        assert cosine(scaled.prefill(PROMPT), expected[-1]) > 0.999
        assert scaled.cautions == ()


def test_ranges_choose_the_scale_of_the_residual(tmp_path: Path) -> None:
    reference = build_reference("llama", tmp_path, residual=30000.0)
    with af.llm.load(tmp_path, target="m1", context=16).by_ranges(PROMPT) as lm:
        assert lm.forms.wide_norms
        assert lm.forms.residual_scale == lm.weights.residual_scale >= 2
        assert "too near the end of fp16" in str(lm.forms)
        assert cosine(lm.prefill(PROMPT), reference_logits(reference, PROMPT)[-1]) > 0.999
        assert lm.for_target("m4").forms == lm.forms


def test_ranges_choose_the_norms_of_the_engine(model: LanguageModel) -> None:
    with model.by_ranges(PROMPT) as lm:
        assert str(lm.forms).startswith("residual scale 1 (the residual reaches ")
        assert "norms are the engine's own (squares of a row add up to " in str(lm.forms)
        assert lm.weights is model.weights
        assert len(lm.step_program().models[0].layers) < len(model.step_program().models[0].layers)
        assert lm.generate(PROMPT, max_new_tokens=4) == model.generate(PROMPT, max_new_tokens=4)
    assert str(model.forms).endswith("(no ranges were given)")


def test_a_row_near_epsilon_needs_the_wide_norm() -> None:
    chosen = choose_forms(ResidualRanges((0.01,), 0.01, 0.01, 1e-5), NormSpec(kind="rms", epsilon=1e-6))
    assert chosen.wide_norms
    assert chosen.why_norms == "the mean square of a row is 1e-05, too near its epsilon of 1e-06"


def test_a_vocabulary_beyond_one_axis_is_cut_into_tiles(tmp_path: Path) -> None:
    reference = build_reference("llama", tmp_path, vocab_size=16500, num_hidden_layers=1)
    with af.llm.load(tmp_path, target="m1", context=16) as lm:
        logits = lm.prefill(PROMPT)
        assert [name for name in lm.prefill_program(8).models[0].outputs if "logits" in name] == [
            "logits_0",
            "logits_1",
        ]
    assert logits.argmax() == reference_logits(reference, PROMPT)[-1].argmax()


def test_a_recurrent_model_is_compared_and_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    build_reference("qwen3_5_text", tmp_path)
    with af.llm.load(tmp_path, target="m1", context=16) as lm:
        found = lm.compare(Mathematics(lm), PROMPT[:3], max_new_tokens=2)
        assert found.first_flip is None
        assert lm.trace(PROMPT[:3]) == pytest.approx(Mathematics(lm).trace(PROMPT[:3]), abs=0.02)
        with pytest.raises(UnsupportedModelError, match="cannot be rewound"):
            lm.rewind(1)
        with pytest.raises(UnsupportedModelError, match="whole prompt"):
            prefill_graph(lm.parts[0], 8)


@pytest.fixture(scope="module", params=["qwen3_next", "qwen3_5_text"])
def hybrid_and_reference(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[LanguageModel, HuggingFaceModel]:
    folder = tmp_path_factory.mktemp(request.param)
    reference = build_reference(request.param, folder)
    return af.llm.load(folder, target="m4", context=72), reference


@pytest.fixture(scope="module")
def hybrid(hybrid_and_reference: tuple[LanguageModel, HuggingFaceModel]) -> LanguageModel:
    return hybrid_and_reference[0]


def test_a_prompt_of_a_hybrid_in_pieces_is_that_of_single_tokens(
    hybrid_and_reference: tuple[LanguageModel, HuggingFaceModel],
) -> None:
    hybrid, reference = hybrid_and_reference
    prompt = [(7 * place * place + 3) % 160 for place in range(70)]
    rows = hybrid.score(prompt)
    assert hybrid.prefill(prompt) == pytest.approx(rows[-1], abs=2e-3)
    held = {name: one.copy() for name, one in hybrid.cache.buffers.items()}
    hybrid.cache.clear()
    singly = np.stack([hybrid.step(one) for one in prompt])
    assert hybrid.cache.length == 70
    for name, one in hybrid.cache.buffers.items():
        assert np.abs(held[name] - one).max() < 0.02 * np.abs(one).max(), name
    expected = reference_logits(reference, prompt)
    assert np.linalg.norm(rows - expected) < 1.2 * np.linalg.norm(singly - expected)
    assert cosine(rows, expected) > 0.999


def overwritten(lm: LanguageModel, length: int) -> list[bytes]:
    """Return what windows and memories are after so many tokens."""
    lm.rewind(length)
    return [lm.cache.buffers[name].tobytes() for name in lm.cache.overwritten]


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.8, top_p=0.9, seed=5)])
def test_a_hybrid_decodes_speculatively_as_it_decodes_plainly(hybrid: LanguageModel, sampling: Sampling) -> None:
    plain = hybrid.generate(PROMPT, max_new_tokens=9, end_tokens=(), sampling=sampling)
    held = overwritten(hybrid, len(PROMPT) + 8)
    generator = np.random.default_rng(2)

    def at_random(_tokens: Sequence[int], most: int) -> list[int]:
        return [int(one) for one in generator.integers(0, 160, most)]

    def right_at_first(tokens: Sequence[int], most: int) -> list[int]:
        right = plain[len(tokens) - len(PROMPT) :][:most]
        return [*right[: most // 2], *at_random(tokens, most - most // 2)]

    def always_right(tokens: Sequence[int], most: int) -> list[int]:
        return plain[len(tokens) - len(PROMPT) :][:most]

    runs: list[int] = []
    for draft in (at_random, af.llm.draft_by_repetition, right_at_first, always_right):
        logits = hybrid.prefill(PROMPT)
        found = af.llm.generate_speculatively(
            hybrid.verify, draft, PROMPT, logits, max_new_tokens=9, guesses=2, sampling=sampling
        )
        assert list(found.tokens) == plain
        assert overwritten(hybrid, len(PROMPT) + 8) == held
        runs.append(found.runs)
    assert runs[-1] == 3 < runs[0]


def test_tokens_that_a_hybrid_verifies_have_the_bits_of_single_steps(hybrid: LanguageModel) -> None:
    text = [(7 * place * place + 3) % 160 for place in range(19)]
    hybrid.prefill(PROMPT)
    rows: list[Array] = []
    held: list[list[bytes]] = []
    for one in text:
        rows.append(hybrid.step(one))
        held.append(overwritten(hybrid, hybrid.cache.length))
    cached = {name: one.copy() for name, one in hybrid.cache.buffers.items()}
    hybrid.prefill(PROMPT)
    assert hybrid.verify(text, len(PROMPT)).tobytes() == np.stack(rows).tobytes()
    assert all(np.array_equal(cached[name], one) for name, one in hybrid.cache.buffers.items())
    for back in (18, 9, 8, 2):
        assert overwritten(hybrid, len(PROMPT) + back) == held[back - 1]
    hybrid.prefill(PROMPT)
    for place, one in enumerate(text):
        assert hybrid.verify([one], len(PROMPT) + place).tobytes() == rows[place].tobytes()
    with pytest.raises(UnsupportedModelError, match="or ask for at most 16 guesses"):
        hybrid.rewind(len(PROMPT) + 1)
    assert overwritten(hybrid, len(PROMPT) + 2) == held[1]


def test_a_hybrid_drafts_what_it_would_say_itself_after_any_text(hybrid: LanguageModel) -> None:
    expected = hybrid.generate(PROMPT, max_new_tokens=3, end_tokens=())
    other = [*PROMPT, expected[0], (expected[1] + 1) % 160]  # its second guess was rejected
    instead = hybrid.generate(other, max_new_tokens=3, end_tokens=())
    draft = af.llm.draft_by_model(hybrid.verify)
    assert draft(PROMPT, 3) == expected
    assert draft(other, 3) == instead
    assert draft([*other, *instead[:2]], 1) == instead[2:]


def test_pieces_of_a_hybrid_are_exported_and_read_back(tmp_path: Path) -> None:
    build_reference("qwen3_5_text", tmp_path)
    with af.llm.load(tmp_path, target="m4", context=32) as lm:
        written = export_model(lm, tmp_path / "x.mlpackage", lengths=(16,))
        assert written.functions == ("prefill_16", "decode")
        expected = lm.prefill(PROMPT)
        compiled = af.compile_multi(af.from_mlpackage(written.paths[0], function="prefill_16"), target="m4")
        rows = lm.weights.embed([*PROMPT, *PROMPT[-1:] * 8], 0)
        inputs = {"hidden": rows, **lm.step_program(16, last_row=True).place(0, 8)}
        inputs |= {name: np.zeros_like(one) for name, one in lm.cache.buffers.items()}
        found = compiled(**{name: inputs[name] for name in compiled.inputs})
        assert np.array_equal(found["logits_0"][0], expected)
        assert np.array_equal(found["memory_0_next"], lm.cache.buffers["memory_0"])


def test_experts_in_groups_are_those_in_one(tmp_path: Path) -> None:
    build_reference("qwen3_moe", tmp_path, num_hidden_layers=1)
    with af.llm.load(tmp_path, target="m1", context=16) as lm:
        expected = lm.prefill(PROMPT)
        lm.release()
        lm.parts = tuple(replace(part, longest_axis=96) for part in lm.parts)
        assert lm.prefill(PROMPT) == pytest.approx(expected, abs=2e-3)


def test_a_released_model_compiles_again(llama: Path) -> None:
    lm = af.llm.load(llama, target="m1", context=40)
    first = lm.generate(PROMPT, max_new_tokens=3)
    lm.release()
    assert lm.generate(PROMPT, max_new_tokens=3) == first


def test_generation_ends_where_it_should(model: LanguageModel) -> None:
    free = model.generate(PROMPT, max_new_tokens=5, end_tokens=())
    seen: list[int] = []
    assert model.generate(PROMPT, max_new_tokens=5, end_tokens=[free[1]], on_token=seen.append) == free[:2] == seen
    assert model.generate(PROMPT, max_new_tokens=0) == []
    long = model.generate(PROMPT, max_new_tokens=100, end_tokens=())
    assert len(long) == model.context - len(PROMPT) + 1


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([], "there are no tokens"),
        ([160], "not in the vocabulary"),
        ([-1], "not in the vocabulary"),
        ([1] * 41, "do not fit the context"),
        (["a"], "must be integers"),
    ],
)
def test_a_wrong_prompt_is_one_error(model: LanguageModel, ids: Sequence[int], expected: str) -> None:
    with pytest.raises(GraphError, match=expected):
        model.generate(ids)


def test_an_embedding_beyond_fp16_is_one_error(tmp_path: Path) -> None:
    build_reference("llama", tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["model.embed_tokens.weight"][3, 3] = 1e30
    save_file(tensors, tmp_path / "model.safetensors")
    with af.llm.load(tmp_path, target="m1", context=16) as lm, pytest.raises(CheckpointError, match="does not fit"):
        lm.prefill(PROMPT)


def test_positions_that_depend_on_the_length_are_noted(tmp_path: Path) -> None:
    build_reference("llama", tmp_path, rope_scaling={"rope_type": "dynamic", "factor": 2.0})
    assert not any("dynamic: rotary" in note for note in af.llm.load(tmp_path, target="m1", context=128).notes)
    assert "those of 129 tokens" in af.llm.load(tmp_path, target="m1", context=129).notes[-1]


def test_a_hybrid_may_have_no_attention_at_all(tmp_path: Path) -> None:
    reference = build_reference("qwen3_5_text", tmp_path, layer_types=["linear_attention"] * 2, use_cache=False)
    with af.llm.load(tmp_path, target="m1", context=16) as lm:
        assert cosine(lm.prefill(PROMPT), reference_logits(reference, PROMPT)[-1]) > 0.999


def test_a_context_beyond_the_positions_is_refused(llama: Path) -> None:
    with pytest.raises(UnsupportedModelError, match="limit 128"):
        af.llm.load(llama, target="m1", context=129)
