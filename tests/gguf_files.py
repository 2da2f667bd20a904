"""GGUF files of small models, written by the library as the published conversion writes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import gguf
import numpy as np

from aneforge.llm.gguf import FORMS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from aneforge.llm.checkpoint import FolderCheckpoint
    from aneforge.llm.gguf import Form

    Array = NDArray[Any]

__all__ = ["convert", "pack_q4_k", "write_gguf"]

TYPES = gguf.GGMLQuantizationType
CALLED = {
    "mistral": "llama",
    "qwen2_moe": "qwen2moe",
    "qwen3_moe": "qwen3moe",
    "qwen3_5_text": "qwen35",
    "qwen3_5_moe_text": "qwen35moe",
    "qwen3_next": "qwen3next",
}
"""Architectures by their names with Hugging Face that GGUF calls otherwise."""
BARE = {"A_log": "", "dt_bias": "bias"}
"""Tensors whose names with Hugging Face have no ending, and the ending that GGUF has."""


def write_gguf(
    path: Path,
    architecture: str,
    fields: Mapping[str, object],
    tensors: Mapping[str, tuple[Array, gguf.GGMLQuantizationType]],
) -> Path:
    """Write a file: fields of the architecture by their names, and tensors whose bytes are encoded already."""
    writer = gguf.GGUFWriter(path, architecture)
    for name, value in fields.items():
        key = name if name.startswith(("general.", "tokenizer.")) else f"{architecture}.{name}"
        match value:
            case bool():
                writer.add_bool(key, value)
            case int():
                writer.add_uint32(key, value)
            case float():
                writer.add_float32(key, value)
            case str():
                writer.add_string(key, value)
            case _:
                writer.add_array(key, cast("list[object]", value))
    for name, (values, kind) in tensors.items():
        writer.add_tensor(name, values, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def convert(
    folder: FolderCheckpoint, path: Path, kind: gguf.GGMLQuantizationType = TYPES.F32, *, joined: bool = False
) -> Path:
    """Write the GGUF file of a folder as the published conversion does: names, order of rows, gains, fields.

    `joined` leaves the projections of Qwen3-Next in one tensor, as older conversions do.
    """
    settings = {"num_experts": folder.settings.get("num_local_experts"), **folder.settings}
    hugging_face = str(settings["model_type"])
    architecture = CALLED.get(hugging_face, hugging_face)
    form = FORMS[architecture]
    theirs = {hugging: ours for ours, hugging in form.settings.items()}
    fields = {theirs[name]: value for name, value in settings.items() if name in theirs and value is not None}
    rope = settings.get("rope_parameters")
    if isinstance(rope, dict):
        fields["rope.freq_base"] = float(cast("dict[str, float]", rope)["rope_theta"])
        fields |= turned_fields(settings, cast("dict[str, float]", rope)) if form.delta else {}
    fields["rope.freq_base"] = float(cast("float", fields.get("rope.freq_base", 10000.0)))
    names = {hugging: ours for ours, hugging in form.whole.items()}
    found: dict[str, Array] = {}
    experts: dict[str, list[Array]] = {}
    for name in folder.tensors:
        stem, _, part = name.rpartition(".")
        if part in BARE:
            stem, part = name, BARE[part]
        if stem.startswith(form.prefix):
            number, _, inner = stem.removeprefix(form.prefix).partition(".")
            shared = re.sub(r"experts\.\d+\.", "experts.{expert}.", inner)
            ours = next(key for key, hugging in [*form.layer.items()][::-1] if hugging == shared)
            stored = f"blk.{number}.{ours}"
            if shared != inner:
                experts.setdefault(f"{stored}.{part}", []).append(np.asarray(folder.read(name), np.float32))
                continue
        else:
            ours = stored = names[stem]
        values = stored_values(form, f"{ours}.{part}", np.asarray(folder.read(name), np.float32), settings)
        if ours == "ssm_in" and not joined:
            begin = stored.removesuffix(ours)
            found[f"{begin}attn_qkv.weight"], found[f"{begin}attn_gate.weight"] = split_key_heads(values, settings)
            continue
        found[f"{stored}.{part}".removesuffix(".")] = values[0] if ours in form.vectors else values
    found |= {name: np.stack(values) for name, values in experts.items()}
    tensors = {name: encode(one, kind if one.ndim > 1 else TYPES.F32) for name, one in found.items()}
    return write_gguf(path, architecture, fields, tensors)


def stored_values(form: Form, name: str, values: Array, settings: Mapping[str, object]) -> Array:
    """Return a tensor as the conversion stores it."""
    ours, _, part = name.rpartition(".")
    heads = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}
    if form.paired and ours in heads:
        count = int(cast("int", settings[heads[ours]]))
        split = values.reshape(count, 2, values.shape[0] // count // 2, *values.shape[1:])
        values = np.ascontiguousarray(split.swapaxes(1, 2)).reshape(values.shape)
    if form.delta and ours == "ssm_a":
        values = -np.exp(values)
    if form.tiled:
        values = hybrid_values(ours, values, settings)
    if ours.endswith("norm") and ours != "ssm_norm":
        values += np.float32(form.norm_offset)
    return np.ascontiguousarray(values.T) if ours in form.turned and part == "weight" else values


def turned_fields(settings: Mapping[str, object], rope: Mapping[str, float]) -> dict[str, object]:
    """Return the fields of a hybrid that are not settings by themselves."""
    head, heads, width = (
        cast("int", settings[name]) for name in ("head_dim", "linear_num_value_heads", "linear_value_head_dim")
    )
    return {
        "rope.dimension_count": int(head * rope.get("partial_rotary_factor", 0.25)),
        "ssm.inner_size": heads * width,
    }


def split_key_heads(values: Array, settings: Mapping[str, object]) -> tuple[Array, Array]:
    """Return queries, keys and values of all key heads one after the other, and their gates."""
    keys, heads, key, value = (
        cast("int", settings[f"linear_{name}"])
        for name in ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim")
    )
    wide = heads // keys * value
    apart = values.reshape(keys, 2 * key + 2 * wide, -1)
    parts = np.split(apart, [key, 2 * key, 2 * key + wide], axis=1)
    query, each_key, each_value, gate = (np.ascontiguousarray(one).reshape(-1, values.shape[1]) for one in parts)
    return np.concatenate([query, each_key, each_value]), gate


def hybrid_values(part: str, values: Array, settings: Mapping[str, object]) -> Array:
    """Return a tensor of a delta net as the conversion stores it: value heads tiled."""
    keys, heads, key, value = (
        cast("int", settings[f"linear_{name}"])
        for name in ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim")
    )

    def tile(rows: Array, width: int) -> Array:
        apart = rows.reshape(keys, heads // keys, width, *rows.shape[1:])
        return np.ascontiguousarray(apart.swapaxes(0, 1)).reshape(rows.shape)

    if part in {"ssm_a", "ssm_dt", "ssm_alpha", "ssm_beta"}:
        return tile(values, 1)
    if part == "attn_gate":
        return tile(values, value)
    if part == "ssm_out":
        return np.ascontiguousarray(tile(np.ascontiguousarray(values.T), value).T)
    if part in {"attn_qkv", "ssm_conv1d"}:
        flat = values.reshape(values.shape[0], -1)
        return np.concatenate([flat[: 2 * keys * key], tile(flat[2 * keys * key :], value)])
    return values


def encode(values: Array, kind: gguf.GGMLQuantizationType) -> tuple[Array, gguf.GGMLQuantizationType]:
    """Return values in a type of elements, and the type; Q4_K, which the library does not encode, by hand."""
    if kind == TYPES.Q4_K:
        return pack_q4_k(values), kind
    quantize = cast("Callable[[Array, gguf.GGMLQuantizationType], Array]", gguf.quantize)
    return quantize(values, kind), kind


def pack_q4_k(values: Array) -> Array:
    """Return rows as blocks of Q4_K: 256 numbers as 8 runs of 32, each d·scale·q − dmin·least with 6-bit integers.

    A block is d and dmin in fp16, 12 bytes with 8 scales and 8 least values, and 128 bytes of two numbers each.
    """
    runs = values.reshape(-1, 8, 32).astype(np.float64)
    least = np.minimum(runs.min(axis=2), 0.0)
    span = (runs.max(axis=2) - least) / 15
    d, dmin = (np.maximum(one.max(axis=1) / 63, 1e-7).astype(np.float16) for one in (span, -least))
    scales, mins = (
        np.clip(np.rint(one / unit.astype(np.float64)[:, None]), 0, 63).astype(np.uint8)
        for one, unit in ((span, d), (-least, dmin))
    )
    step = d.astype(np.float64)[:, None] * scales
    shift = dmin.astype(np.float64)[:, None] * mins
    q = np.clip(np.rint((runs + shift[..., None]) / np.where(step == 0, 1, step)[..., None]), 0, 15).astype(np.uint8)
    packed = np.zeros((runs.shape[0], 12), np.uint8)
    packed[:, 0:4] = (scales[:, :4] & 63) | (scales[:, 4:] >> 4 << 6)
    packed[:, 4:8] = (mins[:, :4] & 63) | (mins[:, 4:] >> 4 << 6)
    packed[:, 8:12] = (scales[:, 4:] & 15) | (mins[:, 4:] & 15) << 4
    nibbles = q.reshape(-1, 4, 2, 32)
    halves = nibbles[:, :, 0] | nibbles[:, :, 1] << 4
    heads = np.stack([d, dmin], axis=1).view(np.uint8)
    blocks = np.concatenate([heads, packed, halves.reshape(-1, 128)], axis=1)
    return blocks.reshape(*values.shape[:-1], values.shape[-1] // 256 * 144)
