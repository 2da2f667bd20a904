"""Checkpoints in GGUF files, as llama.cpp writes them: read as if they were folders of Hugging Face.

Metadata becomes settings in the names of `config.json`, and tensors have the names, the order of rows and the values
that a folder has: what the conversion to GGUF changed (rows of queries and keys in pairs for Llama, gains of Gemma plus
one, matrices of GPT-2 transposed, the experts of a layer in one tensor) is changed back when rows are read. The library
`gguf` reads and decodes; files are mapped into memory, and blocks are decoded a few rows at a time, so that a tensor
takes its float32 numbers and little more.
"""

from __future__ import annotations

import os
import re
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import ml_dtypes
import numpy as np

from aneforge.errors import CheckpointError, Location, UnsupportedModelError
from aneforge.llm.checkpoint import StoredTensor
from aneforge.llm.gguf_hybrids import (
    ALL_PROJECTIONS,
    BARE,
    DELTA_LAYER,
    DELTA_SETTINGS,
    EXTRA_LAYERS,
    GATES,
    JOINED_LAYER,
    OF_ALL_VALUES,
    PROJECTIONS,
    RATE,
    KeyHeads,
    TiledHeads,
    delta_settings,
    key_heads,
    tiled_heads,
)
from aneforge.packages import expect_package
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gguf import GGMLQuantizationType
    from numpy.typing import NDArray

    from aneforge.ops.types import Array

__all__ = ["GgufCheckpoint"]

ROWS_BYTES = 1 << 22
"""Bytes of float32 numbers that are decoded at a time: the decoder's own arrays are a few times as large."""
PLAIN = {"F32": np.dtype(np.float32), "F16": np.dtype(np.float16), "BF16": np.dtype(ml_dtypes.bfloat16)}
ARCHITECTURE = "general.architecture"
SHARD = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
LAYER = re.compile(r"blk\.(?P<number>\d+)\.(?P<name>.+)")
DAMAGED = "download it again; a file that was cut off looks like this"

LLAMA_LAYER: Mapping[str, str] = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
LLAMA_WHOLE: Mapping[str, str] = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
LLAMA_SETTINGS: Mapping[str, str] = {
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "context_length": "max_position_embeddings",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window",
    "rope.freq_base": "rope_theta",
    "rope.scaling.original_context_length": "original_max_position_embeddings",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
}
EXPERTS_LAYER: Mapping[str, str] = {
    **LLAMA_LAYER,
    "ffn_gate_inp": "mlp.gate",
    "ffn_gate_exps": "mlp.experts.{expert}.gate_proj",
    "ffn_up_exps": "mlp.experts.{expert}.up_proj",
    "ffn_down_exps": "mlp.experts.{expert}.down_proj",
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
    "ffn_up_shexp": "mlp.shared_expert.up_proj",
    "ffn_down_shexp": "mlp.shared_expert.down_proj",
}
"""The experts of a layer are one tensor with an axis before the others."""
EXPERTS_SETTINGS: Mapping[str, str] = {
    **LLAMA_SETTINGS,
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "expert_weights_norm": "norm_topk_prob",
}
EXPERT = "{expert}"
OF_EVERY_EXPERT = "ffn_gate_exps.weight"
GPT2_SETTINGS: Mapping[str, str] = {
    "embedding_length": "n_embd",
    "block_count": "n_layer",
    "feed_forward_length": "n_inner",
    "context_length": "n_positions",
    "attention.head_count": "n_head",
    "attention.layer_norm_epsilon": "layer_norm_epsilon",
}


@dataclass(frozen=True, slots=True)
class Form:
    """How an architecture is stored in GGUF."""

    whole: Mapping[str, str]
    """Names of tensors outside of layers, without `.weight` or `.bias`: of GGUF, and of Hugging Face."""
    layer: Mapping[str, str]
    """The same of a layer."""
    prefix: str
    """What is before the number of a layer in the names of Hugging Face."""
    settings: Mapping[str, str]
    paired: bool = False
    """Rows of queries and keys are in the order in which pairs of neighbours are rotated."""
    norm_offset: float = 0.0
    """What was added to the gains of norms."""
    turned: frozenset[str] = frozenset()
    """Matrices that Hugging Face stores [in, out]."""
    vectors: frozenset[str] = frozenset()
    """Matrices of one row, which the conversion stores as vectors."""
    implied: Mapping[str, object] = field(default_factory=dict[str, object])
    """Settings that the architecture implies and no field states."""
    delta: bool = False
    """Layers may be gated delta nets."""
    tiled: bool = False
    """Their value heads are in the order of tiles."""


LLAMA = Form(LLAMA_WHOLE, LLAMA_LAYER, "model.layers.", LLAMA_SETTINGS)
FORMS: Mapping[str, Form] = {
    "llama": Form(LLAMA_WHOLE, LLAMA_LAYER, "model.layers.", LLAMA_SETTINGS, paired=True),
    "qwen2": LLAMA,
    "qwen3": LLAMA,
    "gemma": Form(LLAMA_WHOLE, LLAMA_LAYER, "model.layers.", LLAMA_SETTINGS, norm_offset=1.0),
    "qwen2moe": Form(
        LLAMA_WHOLE,
        EXPERTS_LAYER,
        "model.layers.",
        EXPERTS_SETTINGS,
        vectors=frozenset({"ffn_gate_inp_shexp"}),
        implied={"model_type": "qwen2_moe", "norm_topk_prob": False},
    ),
    "qwen3moe": Form(
        LLAMA_WHOLE,
        EXPERTS_LAYER,
        "model.layers.",
        EXPERTS_SETTINGS,
        implied={"model_type": "qwen3_moe", "norm_topk_prob": True},
    ),
    "qwen35": Form(
        LLAMA_WHOLE,
        {**LLAMA_LAYER, **DELTA_LAYER},
        "model.layers.",
        {**LLAMA_SETTINGS, **DELTA_SETTINGS},
        norm_offset=1.0,
        implied={"model_type": "qwen3_5_text"},
        delta=True,
        tiled=True,
    ),
    "qwen35moe": Form(
        LLAMA_WHOLE,
        {**EXPERTS_LAYER, **DELTA_LAYER},
        "model.layers.",
        {**EXPERTS_SETTINGS, **DELTA_SETTINGS},
        norm_offset=1.0,
        vectors=frozenset({"ffn_gate_inp_shexp"}),
        implied={"model_type": "qwen3_5_moe_text", "norm_topk_prob": True},
        delta=True,
        tiled=True,
    ),
    "qwen3next": Form(
        LLAMA_WHOLE,
        {**EXPERTS_LAYER, **DELTA_LAYER, **JOINED_LAYER},
        "model.layers.",
        {**EXPERTS_SETTINGS, **DELTA_SETTINGS},
        norm_offset=1.0,
        vectors=frozenset({"ffn_gate_inp_shexp"}),
        implied={"model_type": "qwen3_next", "norm_topk_prob": True},
        delta=True,
    ),
    "phi3": Form(LLAMA_WHOLE, {**LLAMA_LAYER, "ffn_up": "mlp.gate_up_proj"}, "model.layers.", LLAMA_SETTINGS),
    "gpt2": Form(
        {
            "token_embd": "transformer.wte",
            "position_embd": "transformer.wpe",
            "output_norm": "transformer.ln_f",
            "output": "lm_head",
        },
        {
            "attn_norm": "ln_1",
            "attn_qkv": "attn.c_attn",
            "attn_output": "attn.c_proj",
            "ffn_norm": "ln_2",
            "ffn_up": "mlp.c_fc",
            "ffn_down": "mlp.c_proj",
        },
        "transformer.h.",
        GPT2_SETTINGS,
        turned=frozenset({"attn_qkv", "attn_output", "ffn_up", "ffn_down"}),
    ),
}


class TensorType(Protocol):
    """A type of elements, as the library has it."""

    @property
    def name(self) -> str: ...


class ReaderTensor(Protocol):
    """A tensor of an open file, as the library has it: without types of its own."""

    name: str
    tensor_type: TensorType
    shape: Array
    data: Array


class ReaderField(Protocol):
    """A field of metadata, as the library has it."""

    def contents(self) -> object: ...


class Reader(Protocol):
    """An open file, as the library has it."""

    fields: Mapping[str, ReaderField]
    tensors: Sequence[ReaderTensor]
    byte_order: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where the values of a tensor of Hugging Face are."""

    tensor: ReaderTensor
    heads: int = 0
    """Heads whose rows are in pairs; 0 for rows in their own order."""
    offset: float = 0.0
    turned: bool = False
    vector: bool = False
    """One row of a matrix, stored without its axis of rows."""
    expert: int | None = None
    """Which of the experts that are stored together."""
    tiled: TiledHeads | None = None
    """Value heads that are in the order of tiles."""
    rate: bool = False
    """Hugging Face stores the logarithm of the negative."""
    second: ReaderTensor | None = None
    """A second tensor, whose rows are among those of the first."""
    key_heads: KeyHeads | None = None
    """How they are arranged."""

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape of the numbers that are stored for it."""
        stored = tuple(int(extent) for extent in reversed(self.tensor.shape.tolist()))
        if self.second is not None:
            return (stored[0] + int(self.second.shape.tolist()[-1]), *stored[1:])
        if self.vector:
            return (1, *stored)
        return stored if self.expert is None else stored[1:]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that Hugging Face has."""
        return self.stored_shape[::-1] if self.turned else self.stored_shape

    @property
    def data(self) -> Array:
        """What is stored: numbers, or blocks of them, by rows."""
        if self.vector:
            return self.tensor.data[None]
        return self.tensor.data if self.expert is None else self.tensor.data[self.expert]


class GgufCheckpoint:
    """A model in a GGUF file, or in several that are the shards of one.

    >>> GgufCheckpoint("/no/such/file.gguf")
    Traceback (most recent call last):
    ...
    aneforge.errors.CheckpointError: at /no/such/file.gguf: there is no such file

    Raises:
        CheckpointError: A file is missing, damaged or cut off, or states no architecture.
        MissingPackageError: The package gguf is not installed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.readers = [open_file(one) for one in shards_of(self.path)]
        self.fields = self.readers[0].fields
        self.stored = {tensor.name: tensor for reader in self.readers for tensor in reader.tensors}
        self.architecture = str(self.expect(ARCHITECTURE))

    @property
    def source(self) -> str:
        """The file."""
        return os.fspath(self.path)

    @property
    def settings(self) -> Mapping[str, object]:
        """The settings, by the names of `config.json`.

        Raises:
            CheckpointError: A field has a value that cannot be one.
        """
        return self.found_settings

    @cached_property
    def found_settings(self) -> Mapping[str, object]:
        """The same, found once."""
        form = FORMS.get(self.architecture, LLAMA)
        stated = {
            theirs: self.own_field(ours) for ours, theirs in form.settings.items() if self.own_field(ours) is not None
        }
        found: dict[str, object] = {"model_type": self.architecture, **form.implied, **stated}
        if "expert_count" in form.settings:
            layers = cast("int", found.get("num_hidden_layers", 0))
            found["mlp_only_layers"] = [n for n in range(layers) if f"blk.{n}.{OF_EVERY_EXPERT}" not in self.stored]
        if form.delta:
            linear = [f"blk.{n}.{RATE}" in self.stored for n in range(cast("int", found.get("num_hidden_layers", 0)))]
            found |= delta_settings(found, self.own_field(OF_ALL_VALUES), self.own_field(EXTRA_LAYERS), linear)
        if "token_embd.weight" in self.stored:
            found["vocab_size"] = int(self.stored["token_embd.weight"].shape.tolist()[-1])
        found["tie_word_embeddings"] = "output.weight" not in self.stored
        if (end := self.value("tokenizer.ggml.eos_token_id")) is not None:
            found["eos_token_id"] = end
        if form.settings is not GPT2_SETTINGS:
            found["attention_bias"] = "blk.0.attn_output.bias" in self.stored
            found |= self.rope_settings(found)
        return found

    def rope_settings(self, found: Mapping[str, object]) -> dict[str, object]:
        """Return how rotary positions are scaled, and which part of a head they rotate."""
        rope: dict[str, object] = {"rope_theta": found.get("rope_theta", 10000.0), "rope_type": "default"}
        short, long = (self.factors(name) for name in ("rope_factors_short.weight", "rope_factors_long.weight"))
        both = self.factors("rope_freqs.weight")
        kind, factor = self.own_field("rope.scaling.type"), self.own_field("rope.scaling.factor")
        if both is not None or (short is not None and long is not None):
            rope |= {"rope_type": "longrope", "short_factor": both or short, "long_factor": both or long}
            # Factors for every length are those of Llama 3, which leave the magnitude of attention as it is.
            scale = 1.0 if both is not None else self.own_field("rope.scaling.attn_factor")
            rope |= {} if scale is None else {"attention_factor": scale}
        elif isinstance(kind, str) and kind != "none":
            rope |= {"rope_type": kind, "factor": 1.0 if factor is None else factor}
        turned, heads, width = (
            self.own_field("rope.dimension_count"),
            found.get("num_attention_heads"),
            found.get("hidden_size"),
        )
        head = found.get("head_dim") or (width // heads if isinstance(width, int) and isinstance(heads, int) else None)
        delta = FORMS.get(self.architecture, LLAMA).delta
        if isinstance(turned, int) and isinstance(head, int) and (turned != head or delta):
            rope["partial_rotary_factor"] = turned / head
        return {"rope_parameters": rope}

    def factors(self, name: str) -> list[float] | None:
        """Return a row of factors that is stored as a tensor; None where there is none."""
        if name not in self.stored:
            return None
        return [float(one) for one in np.asarray(self.stored[name].data, np.float32).reshape(-1)]

    @property
    def tensors(self) -> Mapping[str, StoredTensor]:
        """Shapes and element types of all tensors, by the names of Hugging Face.

        Raises:
            UnsupportedModelError: The names of the architecture are not known.
        """
        return {name: StoredTensor(place.shape, place.tensor.tensor_type.name) for name, place in self.places.items()}

    @cached_property
    def places(self) -> Mapping[str, Place]:
        """Where every tensor is."""
        form = FORMS.get(self.architecture)
        if form is None:
            raise UnsupportedModelError(
                f"the names of tensors in GGUF files of {self.architecture!r} are not known",
                location=Location(self.source),
                limit=", ".join(FORMS),
                remedy="take the folder of Hugging Face that the file was converted from",
            )
        found: dict[str, Place] = {}
        for name, tensor in self.stored.items():
            stem, _, kind = name.rpartition(".")
            if kind == RATE:
                stem, kind = name, "weight"
            layer = LAYER.fullmatch(stem)
            part = layer["name"] if layer else stem
            theirs = (form.layer if layer else form.whole).get(part)
            if theirs is not None and kind in ("weight", "bias"):
                begin = f"{form.prefix}{layer['number']}." if layer else ""
                place = self.place(tensor, part, kind, form)
                experts = range(int(tensor.shape.tolist()[-1])) if EXPERT in theirs else ()
                if not experts:
                    found[f"{begin}{theirs}.{kind}"] = place
                if form.delta and part in BARE:
                    found[f"{begin}{theirs}"] = found.pop(f"{begin}{theirs}.{kind}")
                for expert in experts:
                    found[f"{begin}{theirs}.{kind}".replace(EXPERT, str(expert))] = replace(place, expert=expert)
        heads = key_heads(self.settings) if JOINED_LAYER.items() <= form.layer.items() else None
        for name in [one for one in found if heads is not None and one.endswith(PROJECTIONS)]:
            gates = found.pop(name.replace(PROJECTIONS, GATES), None)
            if gates is not None:
                joined = replace(found.pop(name), second=gates.tensor, key_heads=heads)
                found[name.replace(PROJECTIONS, ALL_PROJECTIONS)] = joined
        return found

    def place(self, tensor: ReaderTensor, part: str, kind: str, form: Form) -> Place:
        """Return where a tensor is, and what the conversion did to it."""
        counts = {"attn_q": "attention.head_count", "attn_k": "attention.head_count_kv"}
        heads = self.own_field(counts[part]) if form.paired and part in counts else None
        if heads is None and form.paired and part == "attn_k":
            heads = self.own_field("attention.head_count")
        offset = form.norm_offset if part.endswith("norm") and part != "ssm_norm" else 0.0
        turned = part in form.turned and kind == "weight"
        vector = part in form.vectors and len(tensor.shape) == 1
        tiled = tiled_heads(part, self.settings) if form.tiled else None
        paired = heads if isinstance(heads, int) else 0
        return Place(tensor, paired, offset, turned, vector, tiled=tiled, rate=form.delta and part == RATE)

    def read(self, name: str, rows: slice = slice(None)) -> Array:
        """Return a tensor, or rows of it; blocks become float32.

        Raises:
            CheckpointError: There is no such tensor, or the library does not decode its elements.
        """
        place = self.places.get(name)
        if place is None:
            raise CheckpointError(f"there is no tensor {name!r}", location=Location(self.source))
        if place.turned:
            return self.decoded(place, None).T[rows]
        wanted = np.arange(place.shape[0])[rows]
        if place.heads:
            wanted = pair_rows(wanted, place.shape[0] // place.heads)
        if place.tiled is not None and not place.tiled.columns:
            wanted = place.tiled.stored(wanted)
        if place.second is not None and place.key_heads is not None:
            return self.interleaved(place, place.second, place.key_heads, wanted)
        values = self.decoded(place, wanted)
        if place.tiled is not None and place.tiled.columns:
            values = values[:, place.tiled.stored(np.arange(place.shape[1]))]
        if place.rate:
            return np.log(-values)
        return values - values.dtype.type(place.offset) if place.offset else values

    def interleaved(self, place: Place, second: ReaderTensor, heads: KeyHeads, wanted: Array) -> Array:
        """Return rows of two stored tensors in the order in which Hugging Face has them in one."""
        rows, gates = heads.stored(wanted)
        made = np.empty((wanted.size, *place.stored_shape[1:]), np.float32)
        for chosen, tensor in ((~gates, place.tensor), (gates, second)):
            if chosen.any():
                made[chosen] = self.decoded(Place(tensor), rows[chosen])
        return made

    def decoded(self, place: Place, rows: Array | None) -> Array:
        """Return rows of a stored tensor as numbers, or all."""
        data, kind = place.data, place.tensor.tensor_type.name
        chosen = cast("NDArray[np.int64]", np.arange(data.shape[0]) if rows is None else rows)
        stretch = chosen.size > 0 and bool(np.all(np.diff(chosen) == 1))
        if kind in PLAIN:
            plain = data.view(PLAIN[kind])
            return plain[int(chosen[0]) : int(chosen[-1]) + 1] if stretch else plain[chosen]
        decode = decoder_of(place.tensor, self.source)
        shape = place.stored_shape
        made = np.empty((chosen.size, *shape[1:]), np.float32)
        step = max(1, ROWS_BYTES // (4 * max(1, int(np.prod(shape[1:])))))
        for begin in range(0, chosen.size, step):
            taken = chosen[begin : begin + step]
            made[begin : begin + step] = decode(data[taken]).reshape(-1, *shape[1:])
        return made

    def value(self, name: str) -> object:
        """Return a field of the metadata; None where there is none."""
        field = self.fields.get(name)
        return None if field is None else field.contents()

    def own_field(self, name: str) -> object:
        """Return a field of the architecture; None where there is none.

        Raises:
            CheckpointError: It is a list of numbers that differ from layer to layer.
        """
        found = self.value(f"{self.architecture}.{name}")
        if isinstance(found, list):
            entries = cast("list[object]", found)
            if not entries or any(one != entries[0] for one in entries):
                raise CheckpointError(
                    f"{self.architecture}.{name} differs from layer to layer, which is not supported here",
                    location=Location(self.source),
                    seen=entries[:8],
                )
            found = entries[0]
        # Numbers are stored in float32: the shortest decimal that it holds is the one that was meant.
        return float(str(np.float32(found))) if isinstance(found, float) else found

    def expect(self, name: str) -> object:
        """Return a field that must be there.

        Raises:
            CheckpointError: It is not.
        """
        found = self.value(name)
        if found is None:
            raise CheckpointError(f"the metadata has no {name}", location=Location(self.source))
        return found


def shards_of(path: Path) -> list[Path]:
    """Return the files of a model: one, or all shards that the name of one counts.

    Raises:
        CheckpointError: A file is missing.
    """
    named = SHARD.fullmatch(path.name)
    count = int(named["count"]) if named else 1
    files = (
        [path]
        if named is None
        else [path.with_name(f"{named['stem']}-{number:05d}-of-{count:05d}.gguf") for number in range(1, count + 1)]
    )
    missing = [one.name for one in files if not one.is_file()]
    if missing and count > 1:
        raise CheckpointError(
            f"{len(missing)} of {count} shards are missing: {', '.join(missing[:4])}",
            location=Location(os.fspath(path)),
            remedy="download all of them into one folder",
        )
    if missing:
        raise CheckpointError("there is no such file", location=Location(os.fspath(path)))
    return files


def open_file(path: Path) -> Reader:
    """Open a file, mapped into memory.

    Raises:
        CheckpointError: It is not GGUF, damaged, cut off, of other byte order, or has elements of an unknown type.
    """
    expect_package("gguf")
    from gguf import GGUFReader  # noqa: PLC0415 - an extra

    where = Location(os.fspath(path))
    with path.open("rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        raise CheckpointError("this is not a GGUF file", location=where, seen=repr(magic), limit="b'GGUF'")
    try:
        reader = cast("Reader", GGUFReader(os.fspath(path)))
    except ValueError as error:
        if "GGMLQuantizationType" in str(error):
            raise CheckpointError(
                "a tensor has elements of a type that the library does not know",
                location=where,
                seen=str(error),
                remedy="update the package gguf, or take a file in F16, Q8_0, Q4_0 or Q4_K",
            ) from None
        raise damaged_file(path, error) from None
    except (IndexError, KeyError, OverflowError, TypeError) as error:
        raise damaged_file(path, error) from None
    if reader.byte_order != "I":
        raise CheckpointError("the file has the byte order of another machine", location=where)
    return reader


def damaged_file(path: Path, error: Exception) -> CheckpointError:
    """Return the error for a file that the library does not read; what it met is of arrays, but for the version."""
    seen = str(error) if "version" in str(error) else f"{path.stat().st_size:,} bytes"
    message = "the file is damaged: it ends before its contents do, or they are not as its header says"
    return CheckpointError(message, location=Location(os.fspath(path)), seen=seen, remedy=DAMAGED)


def decoder_of(tensor: ReaderTensor, source: str) -> Callable[[Array], Array]:
    """Return what decodes blocks.

    Raises:
        CheckpointError: The library has nothing that does.
    """
    from gguf import dequantize  # noqa: PLC0415 - an extra, which opened the file

    def decode(blocks: Array) -> Array:
        try:
            return dequantize(np.ascontiguousarray(blocks), cast("GGMLQuantizationType", tensor.tensor_type))
        except NotImplementedError:
            raise CheckpointError(
                f"tensor {tensor.name!r} has elements that the library does not decode",
                location=Location(source),
                seen=tensor.tensor_type.name,
                remedy="take a file in F16, Q8_0, Q4_0 or Q4_K",
            ) from None

    return decode


def pair_rows(rows: Array, width: int) -> Array:
    """Return where rows of heads are that were put into the order of pairs: halves of a head became neighbours.

    >>> pair_rows(np.arange(8), 4).tolist()
    [0, 2, 1, 3, 4, 6, 5, 7]
    """
    head, place = np.divmod(rows, width)
    half, pair = np.divmod(place, width // 2)
    return head * width + 2 * pair + half
