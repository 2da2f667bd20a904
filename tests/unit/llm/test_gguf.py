"""GGUF files are read as the folders that they were converted from; damage is one error each."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any, cast

import gguf
import numpy as np
import pytest

from aneforge.errors import CheckpointError, UnsupportedModelError
from aneforge.llm.architectures import describe_decoder
from aneforge.llm.checkpoint import FolderCheckpoint
from aneforge.llm.checkpoint_weights import find_weights
from aneforge.llm.gguf import FORMS, GgufCheckpoint
from aneforge.llm.planning import read_decoder
from aneforge.llm.settings import ModelSettings
from gguf_files import CALLED, TYPES, convert, encode, pack_q4_k, write_gguf
from llm_folders import SMALL, build_reference

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

CHANGED: dict[str, dict[str, Any]] = {
    "llama": {"rope_theta": 5e5, "attention_bias": True},
    "mistral": {"num_key_value_heads": 4},
    "qwen2": {"tie_word_embeddings": True},
    "qwen3_5_text": {"linear_num_value_heads": 6},
    "qwen3_5_moe_text": {"linear_num_value_heads": 6},
    "qwen3_next": {"linear_num_value_heads": 6},
}
ROUNDED = {"F32": 0.0, "F16": 1e-3, "BF16": 8e-3, "Q8_0": 2e-2, "Q4_0": 0.2, "Q4_K": 0.15}


@pytest.mark.parametrize("kind", [one for one in SMALL if CALLED.get(one, one) in FORMS])
def test_a_converted_folder_gives_plan_and_weights_of_the_folder(kind: str, tmp_path: Path) -> None:
    build_reference(kind, tmp_path, **CHANGED.get(kind, {}))
    folder = FolderCheckpoint(tmp_path)
    file = GgufCheckpoint(convert(folder, tmp_path / "model.gguf"))
    wanted, found = find_weights(folder), find_weights(file)
    plans = [describe_decoder(ModelSettings(one.settings, "")) for one in (folder, file)]
    same = ("width", "vocabulary", "positions", "layers", "norm", "tied_head", "embedding_scale")
    assert [getattr(plans[1], name) for name in same] == [getattr(plans[0], name) for name in same]
    if plans[0].rope is not None:
        assert plans[1].rope is not None
        assert (plans[1].rope.base, plans[1].rope.width) == (plans[0].rope.base, plans[0].rope.width)
        assert plans[1].rope.interleaved == plans[0].rope.interleaved
    assert list(wanted.sources) == list(found.sources)
    offset = 1e-6 if FORMS[CALLED.get(kind, kind)].norm_offset else 0.0
    for role in wanted.sources:
        np.testing.assert_allclose(found.read(role), wanted.read(role), rtol=0, atol=offset, err_msg=role)


@pytest.mark.parametrize("kind", ROUNDED)
@pytest.mark.parametrize("model", ["llama", "gpt2"])
def test_types_of_elements(kind: str, model: str, tmp_path: Path) -> None:
    sizes: dict[str, Any] = (
        {"n_embd": 256, "vocab_size": 256}
        if model == "gpt2"
        else {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1}
    )
    build_reference(model, tmp_path, **sizes)
    folder = FolderCheckpoint(tmp_path)
    file = GgufCheckpoint(convert(folder, tmp_path / "model.gguf", TYPES[kind]))
    matrices = 0
    for name, stored in folder.tensors.items():
        if len(stored.shape) > 1:
            matrices += 1
            exact, found = np.asarray(folder.read(name), np.float32), np.asarray(file.read(name), np.float32)
            assert file.tensors[name].element_type == kind
            assert found.shape == exact.shape == file.tensors[name].shape
            assert np.linalg.norm(found - exact) <= ROUNDED[kind] * np.linalg.norm(exact)
            rows = slice(3, 9)
            assert np.array_equal(np.asarray(file.read(name, rows), np.float32), found[rows])
    assert matrices > 4


def test_older_files_of_qwen3_next_have_one_tensor_of_projections(tmp_path: Path) -> None:
    build_reference("qwen3_next", tmp_path, linear_num_value_heads=6)
    folder = FolderCheckpoint(tmp_path)
    files = [GgufCheckpoint(convert(folder, tmp_path / f"{one}.gguf", joined=one)) for one in (False, True)]
    assert [sorted(name for name in one.stored if "ssm_in" in name) for one in files] == [[], ["blk.0.ssm_in.weight"]]
    name = "model.layers.0.linear_attn.in_proj_qkvz.weight"
    for file in files:
        assert np.array_equal(file.read(name), np.asarray(folder.read(name)))
        assert np.array_equal(file.read(name, slice(30, 70)), np.asarray(folder.read(name))[30:70])
    assert find_weights(files[0]).config == find_weights(files[1]).config


def test_experts_are_decoded_one_by_one(tmp_path: Path) -> None:
    build_reference("qwen3_moe", tmp_path)
    folder = FolderCheckpoint(tmp_path)
    file = GgufCheckpoint(convert(folder, tmp_path / "model.gguf", TYPES.Q8_0))
    name = "model.layers.1.mlp.experts.5.up_proj.weight"
    exact, found = np.asarray(folder.read(name), np.float32), np.asarray(file.read(name), np.float32)
    assert file.tensors[name].shape == exact.shape
    assert 0 < np.linalg.norm(found - exact) <= ROUNDED["Q8_0"] * np.linalg.norm(exact)
    assert np.array_equal(file.read(name, slice(3, 9)), found[3:9])


def test_hand_made_blocks_of_q4_k_are_those_of_the_library() -> None:
    values = np.random.default_rng(0).standard_normal((6, 512)).astype(np.float32) * np.float32(0.3)
    packed = pack_q4_k(values)
    library = cast("Callable[[object, object], NDArray[np.float32]]", gguf.dequantize)
    decoded = library(packed, TYPES.Q4_K)
    assert packed.shape == (6, 288)
    assert np.abs(decoded - values).max() < 0.11
    # One block by the published formula, number by number.
    block = packed[0, :144]
    d, dmin = block[:4].view(np.float16).astype(np.float64)
    scales = block[4:16].astype(int)
    for run in range(8):
        if run < 4:
            scale, least = scales[run] & 63, scales[run + 4] & 63
        else:
            scale = (scales[run + 4] & 15) | (scales[run - 4] >> 6) << 4
            least = (scales[run + 4] >> 4) | (scales[run] >> 6) << 4
        quants = block[16 + 32 * (run // 2) : 48 + 32 * (run // 2)] >> (4 * (run % 2)) & 15
        np.testing.assert_allclose(decoded[0, 32 * run : 32 * run + 32], d * scale * quants - dmin * least, atol=1e-6)


def small_file(path: Path, **changed: object) -> Path:
    fields: dict[str, object] = {
        "embedding_length": 32,
        "block_count": 1,
        "feed_forward_length": 32,
        "context_length": 64,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        **changed,
    }
    tensors = {"token_embd.weight": encode(np.ones((40, 32), np.float32), TYPES.Q8_0)}
    return write_gguf(path, str(fields.pop("architecture", "llama")), fields, tensors)


def settings_of(path: Path) -> dict[str, Any]:
    return dict(GgufCheckpoint(path).settings)


def test_metadata_becomes_settings(tmp_path: Path) -> None:
    path = small_file(
        tmp_path / "a.gguf",
        **{
            "rope.freq_base": 5e5,
            "rope.scaling.type": "linear",
            "rope.scaling.factor": 4.0,
            "rope.dimension_count": 4,
            "attention.key_length": 8,
            "attention.sliding_window": 16,
            "tokenizer.ggml.eos_token_id": 7,
        },
    )
    found = settings_of(path)
    assert found["vocab_size"] == 40
    assert (found["hidden_size"], found["num_key_value_heads"], found["head_dim"]) == (32, 2, 8)
    assert (found["eos_token_id"], found["tie_word_embeddings"], found["sliding_window"]) == (7, True, 16)
    assert found["rope_parameters"] == {
        "rope_theta": 5e5,
        "rope_type": "linear",
        "factor": 4.0,
        "partial_rotary_factor": 0.5,
    }
    plan = describe_decoder(ModelSettings(found, "a.gguf"))
    assert plan.rope is not None
    assert (plan.rope.scaling, plan.rope.factor, plan.rope.width) == ("linear", 4.0, 4)


def test_factors_of_llama_3_are_those_of_every_length(tmp_path: Path) -> None:
    tensors = {
        "token_embd.weight": encode(np.ones((40, 32), np.float32), TYPES.F16),
        "rope_freqs.weight": encode(np.array([1.0, 1.5, 4.0, 8.0], np.float32), TYPES.F32),
    }
    fields = {"embedding_length": 32, "block_count": 1, "feed_forward_length": 32, "context_length": 64}
    path = write_gguf(tmp_path / "a.gguf", "llama", {**fields, "attention.head_count": 4}, tensors)
    plan = describe_decoder(ModelSettings(settings_of(path), "a.gguf"))
    assert plan.rope is not None
    assert plan.rope.short_factors == plan.rope.long_factors == (1.0, 1.5, 4.0, 8.0)
    assert plan.rope.attention_factor == 1.0


def test_heads_that_differ_between_layers_are_refused(tmp_path: Path) -> None:
    path = small_file(tmp_path / "a.gguf", **{"attention.head_count_kv": [2, 4], "block_count": 2})
    with pytest.raises(CheckpointError, match="differs from layer to layer"):
        settings_of(path)
    alike = small_file(tmp_path / "b.gguf", **{"attention.head_count_kv": [2, 2], "block_count": 2})
    assert settings_of(alike)["num_key_value_heads"] == 2


def test_every_cut_is_one_error(tmp_path: Path) -> None:
    whole = small_file(tmp_path / "a.gguf").read_bytes()
    cut = tmp_path / "cut.gguf"
    for size in [*range(0, 400, 7), len(whole) // 2, len(whole) - 40]:
        cut.write_bytes(whole[:size])
        with pytest.raises(CheckpointError, match=r"damaged|not a GGUF file|has no general.architecture") as caught:
            GgufCheckpoint(cut)
        assert "dtype" not in str(caught.value)  # what the library says of its arrays is for those who wrote it


def test_other_files(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"PK\x03\x04 something else")
    with pytest.raises(CheckpointError, match="not a GGUF file"):
        GgufCheckpoint(tmp_path / "a.gguf")
    with pytest.raises(CheckpointError, match="no such file"):
        GgufCheckpoint(tmp_path / "b.gguf")


def test_unknown_types_of_elements(tmp_path: Path) -> None:
    path = small_file(tmp_path / "a.gguf")
    content = bytearray(path.read_bytes())
    place = content.index(b"token_embd.weight") + len(b"token_embd.weight") + 4 + 16
    assert content[place] == TYPES.Q8_0
    content[place] = 250
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="a type that the library does not know"):
        GgufCheckpoint(path)


def test_types_that_nothing_decodes(tmp_path: Path) -> None:
    tensors = {"token_embd.weight": (np.ones((4, 8), np.int32), TYPES.I32)}
    path = write_gguf(tmp_path / "a.gguf", "llama", {"block_count": 1}, tensors)
    with pytest.raises(CheckpointError, match="the library does not decode") as caught:
        GgufCheckpoint(path).read("model.embed_tokens.weight")
    assert caught.value.seen == "I32"


def test_plans_take_files(tmp_path: Path) -> None:
    path = small_file(tmp_path / "a.gguf")
    config, source = read_decoder(path)
    assert source == str(path)
    assert config == describe_decoder(ModelSettings(settings_of(path), str(path)))


def test_architectures_without_names(tmp_path: Path) -> None:
    path = small_file(tmp_path / "a.gguf", architecture="mamba")
    with pytest.raises(UnsupportedModelError, match="'mamba' are not known"):
        _ = GgufCheckpoint(path).tensors
    with pytest.raises(UnsupportedModelError, match="no adapter"):
        describe_decoder(ModelSettings(settings_of(path), "a.gguf"))


def test_shards(tmp_path: Path) -> None:
    names = [f"m-0000{number}-of-00002.gguf" for number in (1, 2)]
    fields = {"embedding_length": 32, "block_count": 1, "attention.head_count": 4}
    first = {"token_embd.weight": encode(np.ones((40, 32), np.float32), TYPES.F16)}
    second = {"output_norm.weight": encode(np.full(32, 3, np.float32), TYPES.F32)}
    write_gguf(tmp_path / names[0], "llama", fields, first)
    with pytest.raises(CheckpointError, match="1 of 2 shards are missing: m-00002-of-00002"):
        GgufCheckpoint(tmp_path / names[0])
    write_gguf(tmp_path / names[1], "llama", {}, second)
    found = GgufCheckpoint(tmp_path / names[0])
    assert list(found.tensors) == ["model.embed_tokens.weight", "model.norm.weight"]
    assert found.read("model.norm.weight").tolist() == [3.0] * 32


def test_memory_is_that_of_the_numbers(tmp_path: Path) -> None:
    rows, columns = 3000, 1024
    packed = np.random.default_rng(0).integers(0, 255, (rows, columns // 32 * 34), np.uint8)
    packed.reshape(rows, -1, 34)[:, :, :2] = np.array([1.0], np.float16).view(np.uint8)
    fields = {"embedding_length": columns, "block_count": 1, "attention.head_count": 4}
    path = write_gguf(tmp_path / "a.gguf", "llama", fields, {"token_embd.weight": (packed, TYPES.Q8_0)})
    del packed
    file = GgufCheckpoint(path)
    tracemalloc.start()
    found = file.read("model.embed_tokens.weight")
    most = tracemalloc.get_traced_memory()[1]
    few = file.read("model.embed_tokens.weight", slice(100, 110))
    tracemalloc.stop()
    numbers = rows * columns * 4
    assert found.nbytes == numbers
    # Decoding takes a few arrays of ROWS_BYTES beside the result, however large the tensor is.
    assert most < numbers + 40e6
    assert np.array_equal(few, found[100:110])
