"""Folders of checkpoints: what is read, and the one error that each damage gives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType] - a type of its path is open

import aneforge as af
from aneforge.errors import AneforgeError, CheckpointError, UnsupportedModelError
from aneforge.llm.architecture import expect_context, weight_shapes
from aneforge.llm.architectures import describe_decoder, names
from aneforge.llm.checkpoint import FolderCheckpoint
from aneforge.llm.checkpoint_weights import find_weights
from aneforge.llm.settings import ModelSettings
from llm_folders import SMALL, build_reference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

SETTINGS: Mapping[str, object] = {
    "model_type": "llama",
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 12,
    "vocab_size": 20,
    "max_position_embeddings": 32,
}
PREFIX = "model.layers.0."
SHAPES = {
    "model.embed_tokens.weight": (20, 8),
    f"{PREFIX}input_layernorm.weight": (8,),
    f"{PREFIX}post_attention_layernorm.weight": (8,),
    f"{PREFIX}self_attn.q_proj.weight": (8, 8),
    f"{PREFIX}self_attn.k_proj.weight": (4, 8),
    f"{PREFIX}self_attn.v_proj.weight": (4, 8),
    f"{PREFIX}self_attn.o_proj.weight": (8, 8),
    f"{PREFIX}mlp.gate_proj.weight": (12, 8),
    f"{PREFIX}mlp.up_proj.weight": (12, 8),
    f"{PREFIX}mlp.down_proj.weight": (8, 12),
    "model.norm.weight": (8,),
    "lm_head.weight": (20, 8),
}


def write_folder(folder: Path, **changed: object) -> Path:
    generator = torch.Generator().manual_seed(3)
    tensors = {name: torch.randn(shape, generator=generator).bfloat16() for name, shape in SHAPES.items()}
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({**SETTINGS, **changed}))
    return folder


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = {name: torch.zeros(shape) for name, shape in SHAPES.items()}
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def test_values_are_those_of_the_file_in_its_element_type(tmp_path: Path) -> None:
    checkpoint = FolderCheckpoint(write_folder(tmp_path))
    name = f"{PREFIX}mlp.gate_proj.weight"
    whole, rows = checkpoint.read(name), checkpoint.read(name, slice(2, 5))
    assert checkpoint.tensors[name].element_type == "BF16"
    assert whole.dtype.name == "bfloat16"
    assert rows.tobytes() == whole[2:5].tobytes()


@pytest.mark.parametrize("kind", sorted(SMALL))
def test_every_tensor_of_a_written_model_has_a_role_and_is_read(kind: str, tmp_path: Path) -> None:
    build_reference(kind, tmp_path, shard="60KB")
    weights = find_weights(FolderCheckpoint(tmp_path))
    used = {name for source in weights.sources.values() for name in source.names}
    assert used == set(weights.checkpoint.tensors)
    for role, shape in weight_shapes(weights.config).items():
        found = weights.read(role)
        assert found.shape == shape
        assert found.dtype == np.float32


def test_a_name_without_its_prefix_is_found(tmp_path: Path) -> None:
    write_folder(tmp_path)
    rewrite(tmp_path, lambda held: held.update({"norm.weight": held.pop("model.norm.weight")}))
    assert find_weights(FolderCheckpoint(tmp_path)).sources["final_norm.weight"].names == ("norm.weight",)


def remove_shard(folder: Path) -> None:
    build_reference("llama", folder, shard="60KB")
    next(iter(sorted(folder.glob("model-*.safetensors")))).unlink()


def index_elsewhere(folder: Path) -> None:
    build_reference("llama", folder, shard="60KB")
    index = folder / "model.safetensors.index.json"
    found = json.loads(index.read_text())
    shards = sorted(set(found["weight_map"].values()))
    found["weight_map"]["lm_head.weight"] = next(one for one in shards if one != found["weight_map"]["lm_head.weight"])
    index.write_text(json.dumps(found))


def cut_off(folder: Path) -> None:
    path = write_folder(folder) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def pickled(folder: Path) -> None:
    (write_folder(folder) / "model.safetensors").rename(folder / "pytorch_model.bin")


DAMAGES: Mapping[str, tuple[Callable[[Path], object], str]] = {
    "no config": (lambda folder: (write_folder(folder) / "config.json").unlink(), "there is no config.json"),
    "config no JSON": (lambda folder: (write_folder(folder) / "config.json").write_text("{"), "not JSON"),
    "config a list": (lambda folder: (write_folder(folder) / "config.json").write_text("[]"), "must be a JSON object"),
    "no weights": (lambda folder: (write_folder(folder) / "model.safetensors").unlink(), "there are no weights"),
    "pickle": (pickled, "pytorch_model.bin is a pickle"),
    "cut off": (cut_off, "the file of tensors is damaged"),
    "missing shard": (remove_shard, "shards are missing"),
    "index": (index_elsewhere, "which does not hold it"),
    "other shape": (
        lambda folder: rewrite(write_folder(folder), lambda held: held.update({"lm_head.weight": torch.zeros(21, 8)})),
        "'lm_head.weight' has a different shape",
    ),
    "no tensor": (
        lambda folder: rewrite(write_folder(folder), lambda held: held.pop("model.norm.weight")),
        "there is no tensor 'norm.weight'",
    ),
    "no head": (
        lambda folder: rewrite(write_folder(folder), lambda held: held.pop("lm_head.weight")),
        "tie_word_embeddings",
    ),
    "missing setting": (lambda folder: write_folder(folder, vocab_size=None), "'vocab_size' is missing"),
    "text for a number": (lambda folder: write_folder(folder, hidden_size="8"), "must be an integer"),
    "heads": (lambda folder: write_folder(folder, num_attention_heads=3), "must be a multiple of"),
    "layers": (lambda folder: write_folder(folder, num_hidden_layers=10**9), "an integer of at most"),
    "epsilon": (lambda folder: write_folder(folder, rms_norm_eps=-1e-5), "a positive number"),
    "base": (lambda folder: write_folder(folder, rope_parameters={"rope_theta": 0}), "above 1"),
    "factor": (
        lambda folder: write_folder(folder, rope_scaling={"rope_type": "linear", "factor": 0}),
        "'factor' must be a positive number",
    ),
    "frequencies": (
        lambda folder: write_folder(
            folder, rope_scaling={"rope_type": "llama3", "factor": 2, "low_freq_factor": 4, "high_freq_factor": 4}
        ),
        "above low_freq_factor, 4",
    ),
    "trained positions": (
        lambda folder: write_folder(
            folder, rope_scaling={"rope_type": "yarn", "factor": 2, "original_max_position_embeddings": 1}
        ),
        "trained positions or more",
    ),
    "generation": (
        lambda folder: (write_folder(folder) / "generation_config.json").write_text("{"),
        "not JSON",
    ),
}


@pytest.mark.parametrize("damage", sorted(DAMAGES))
def test_each_damage_is_one_error_with_its_place(damage: str, tmp_path: Path) -> None:
    spoil, expected = DAMAGES[damage]
    spoil(tmp_path)
    with pytest.raises(CheckpointError) as caught:
        find_weights(FolderCheckpoint(tmp_path))
    assert expected in str(caught.value)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("kind", sorted(SMALL))
def test_every_tensor_of_an_architecture_has_a_place(kind: str, tmp_path: Path) -> None:
    build_reference(kind, tmp_path)
    assert find_weights(FolderCheckpoint(tmp_path)).unused == ()


def test_tensors_without_a_place_are_told(tmp_path: Path) -> None:
    write_folder(tmp_path, tie_word_embeddings=True)
    known = {f"{PREFIX}self_attn.rotary_emb.inv_freq": torch.zeros(2), "mtp.layers.0.norm.weight": torch.zeros(8)}
    rewrite(tmp_path, lambda held: held.update(known))
    assert af.llm.load(tmp_path, target="m1").cautions == ()
    more = {f"{PREFIX}self_attn.q_proj.bias": torch.zeros(8)}
    rewrite(tmp_path, lambda held: held.update(more))
    (caution,) = af.llm.load(tmp_path, target="m1").cautions
    assert caution.startswith("1 stored tensor has no place in a llama of 1 layer by these settings")
    assert f"{PREFIX}self_attn.q_proj.bias. Remedy" in caution
    more["model.layers.1.input_layernorm.weight"] = torch.zeros(8)
    rewrite(tmp_path, lambda held: held.update(more))
    (caution,) = af.llm.load(tmp_path, target="m1").cautions
    assert caution.startswith("2 stored tensors have no place")


@pytest.mark.parametrize(
    ("value", "expected"), [(float("nan"), "not finite numbers (got 1 in the part"), (1e9, "does not fit fp16")]
)
def test_weights_that_are_no_numbers_of_the_engine_are_one_error(value: float, expected: str, tmp_path: Path) -> None:
    write_folder(tmp_path)
    rewrite(tmp_path, lambda held: held[f"{PREFIX}self_attn.o_proj.weight"].view(-1).__setitem__(3, value))
    with pytest.raises(CheckpointError) as caught:
        af.llm.load(tmp_path, target="m1").step_program()
    assert expected in str(caught.value)
    assert "Remedy" in str(caught.value)


@pytest.mark.parametrize(("name", "expected"), [("a.bin", "this is a pickle"), ("b.safetensors", "name its folder")])
def test_a_file_of_weights_is_no_model(name: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\x80\x04")
    with pytest.raises(CheckpointError, match=expected):
        af.llm.load(tmp_path / name, target="m1")


@pytest.mark.parametrize(
    ("scaling", "positions"),
    [
        ({"rope_type": "yarn", "factor": 4.0}, 128),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}, 64),
        ({"rope_type": "dynamic", "factor": 2.0}, 64),
        ({"rope_type": "linear", "factor": 4.0}, 32),
    ],
)
def test_scalings_carry_a_model_beyond_its_positions(scaling: Mapping[str, object], positions: int) -> None:
    settings = {**SETTINGS, "num_attention_heads": 1, "rope_scaling": scaling}
    config = describe_decoder(ModelSettings(settings, "config.json"))
    assert config.positions == positions
    assert any(f"32 positions to {positions}" in note for note in config.notes) == (positions > 32)


def test_the_tokens_that_end_a_text_are_those_that_generation_uses(tmp_path: Path) -> None:
    write_folder(tmp_path, eos_token_id=3)
    assert find_weights(FolderCheckpoint(tmp_path)).config.end_tokens == (3,)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [3, 5]}')
    assert find_weights(FolderCheckpoint(tmp_path)).config.end_tokens == (3, 5)


def test_elements_that_are_quantised_are_refused_when_they_are_read(tmp_path: Path) -> None:
    write_folder(tmp_path)
    rewrite(tmp_path, lambda held: held.update({"lm_head.weight": torch.zeros(20, 8, dtype=torch.int8)}))
    with pytest.raises(CheckpointError, match="got I8"):
        find_weights(FolderCheckpoint(tmp_path)).read("head.weight")


REFUSALS: Mapping[str, tuple[Mapping[str, object], str]] = {
    "gemma2": ({"model_type": "gemma2"}, "softcapping"),
    "gemma3": ({"model_type": "gemma3_text"}, "two sorts of rotary positions"),
    "capping": ({"final_logit_softcapping": 30.0}, "final_logit_softcapping"),
    "quantised": ({"quantization_config": {"quant_method": "awq"}}, "got awq"),
    "unknown": ({"model_type": "llamma"}, "nearest: llama"),
    "rope": ({"rope_scaling": {"rope_type": "spiral"}}, "'spiral'"),
    "activation": ({"hidden_act": "mish"}, "'mish'"),
}


@pytest.mark.parametrize("refusal", sorted(REFUSALS))
def test_what_only_looks_like_a_known_model_is_refused_with_the_reason(refusal: str) -> None:
    changed, expected = REFUSALS[refusal]
    with pytest.raises(UnsupportedModelError) as caught:
        describe_decoder(ModelSettings({**SETTINGS, **changed}, "here/config.json"))
    assert expected in str(caught.value)
    assert "here/config.json" in str(caught.value)


EXPERTS: Mapping[str, object] = {
    "num_experts": 2,
    "num_experts_per_tok": 1,
    "moe_intermediate_size": 4,
    "shared_expert_intermediate_size": 4,
}


@pytest.mark.parametrize(
    ("kind", "window", "changed", "longest", "said"),
    [
        ("mistral", None, {}, 32, ""),
        ("mistral", 32, {}, 32, "covers all 32 positions"),
        ("mistral", 20, {}, 20, "it changes no context up to 20"),
        ("mistral", 20, {"layer_types": ["full_attention"]}, 20, "it changes no context up to 20"),
        ("phi3", 20, {"layer_types": ["full_attention"]}, 20, "it changes no context up to 20"),
        ("qwen2", 20, {"use_sliding_window": False}, 32, "switched off"),
        ("qwen2", 20, {"use_sliding_window": True, "max_window_layers": 1}, 32, ""),
        ("qwen2", 20, {"use_sliding_window": True, "max_window_layers": 0}, 20, "it changes no context up to 20"),
        ("qwen3", 9, {"use_sliding_window": True, "layer_types": ["full_attention"]}, 32, ""),
        ("qwen3_moe", 9, {"use_sliding_window": True, "max_window_layers": 1, **EXPERTS}, 9, "no context up to 9"),
        ("qwen2_moe", 9, {"use_sliding_window": True, **EXPERTS}, 9, "no context up to 9"),
        ("qwen2_moe", 9, {"use_sliding_window": True, "max_window_layers": 0, **EXPERTS}, 32, ""),
    ],
)
def test_a_window_that_is_off_or_long_enough_changes_nothing(
    kind: str, window: int | None, changed: Mapping[str, object], longest: int, said: str
) -> None:
    settings = {**SETTINGS, "model_type": kind, "sliding_window": window, **changed}
    config = describe_decoder(ModelSettings(settings, "config.json"))
    expect_context(config, longest, "config.json")
    with pytest.raises(UnsupportedModelError, match=f"at most {longest}"):
        expect_context(config, longest + 1, "config.json")
    assert said in "".join(config.notes)
    assert bool(said) == bool(config.notes)


def test_what_a_file_does_not_say_is_what_hugging_face_takes() -> None:
    long = {**SETTINGS, "max_position_embeddings": 8192}
    mistral = describe_decoder(ModelSettings({**long, "model_type": "mistral"}, "config.json"))
    with pytest.raises(UnsupportedModelError, match="window 4096"):
        expect_context(mistral, 4097, "config.json")
    for kind in ("phi3", "qwen2"):
        assert describe_decoder(ModelSettings({**long, "model_type": kind}, "config.json")).notes == ()


@pytest.mark.parametrize(("stated", "expected"), [("gelu", "gelu_tanh"), ("relu", "relu"), (None, "gelu_tanh")])
def test_gemma_takes_the_activation_of_its_file(stated: str | None, expected: str) -> None:
    config = describe_decoder(ModelSettings({**SETTINGS, "model_type": "gemma", "hidden_act": stated}, "config.json"))
    assert getattr(config.layers[0].mlp, "activation", None) == expected


ODDITIES: list[object] = [0, -1, 1.5, True, "x", [], {}, [1], {"a": {}}, float("nan"), float("inf")]


def outcome(settings: Mapping[str, object]) -> str:
    try:
        return describe_decoder(ModelSettings(settings, "config.json")).architecture
    except AneforgeError as error:
        return str(error)


@pytest.mark.parametrize("kind", names())
def test_settings_of_any_sort_give_a_plan_or_one_error(kind: str) -> None:
    touched = {*SETTINGS, "rope_parameters", "rope_scaling", "layer_types", "sliding_window", "head_dim"} - {
        "model_type"
    }
    for name in touched:
        for odd in ODDITIES:
            found = outcome({**SETTINGS, "model_type": kind, "use_sliding_window": True, name: odd})
            assert found == kind or "config.json" in found
