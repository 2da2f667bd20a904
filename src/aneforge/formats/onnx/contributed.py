"""How the operators are written that ONNX Runtime adds to ONNX's own: its optimiser and its tools put them into models.

ONNX's package has no schemas of them; these follow the runtime's published list of contributed operators. An operator
of the list that has no signature here is reported, with the level of optimisation that leaves it out.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import onnx
from onnx import helper

from aneforge.formats.onnx.dtypes import ELEMENT_TYPES, schema_type
from aneforge.formats.onnx.rules import RUNTIME_DOMAIN
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "DEFAULT_SIGNATURES",
    "RUNTIME_SIGNATURES",
    "Signature",
    "runtime_signature",
]

KINDS = {
    "int": onnx.AttributeProto.INT,
    "float": onnx.AttributeProto.FLOAT,
    "str": onnx.AttributeProto.STRING,
    "ints": onnx.AttributeProto.INTS,
    "floats": onnx.AttributeProto.FLOATS,
}
ANY_NUMBER = 2**31 - 1
EVERY_TYPE = frozenset(schema_type(dtype) for dtype in ELEMENT_TYPES.values())

WINDOW = "auto_pad:str=NOTSET dilations:ints kernel_shape:ints pads:ints strides:ints"
CONVOLUTION = f"{WINDOW} group:int=1"
PARTIAL = "axis:int=-1 epsilon:float=1e-05 stash_type:int=1"
HEADS = "num_heads:int! mask_filter_value:float=-10000 scale:float unidirectional:int=0"
BINARY = "A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point?"
UNARY = "X X_scale X_zero_point? Y_scale Y_zero_point?"

DEFAULT_SIGNATURES = {
    "LayerNormalization": ("X Scale B?", "Y mean? inverse?", PARTIAL),
    "SimplifiedLayerNormalization": ("X scale", "Y inverse?", PARTIAL),
}
"""Operators that the runtime adds to the default set itself: the first before ONNX had it, from version 17 on."""

RUNTIME_SIGNATURES = {
    "Attention": (
        "input:3 weights:2 bias:1? mask_index:1-4? past:5? attention_bias:4? past_sequence_length?",
        "output present?",
        f"{HEADS} qkv_hidden_sizes:ints do_rotary:int=0 past_present_share_buffer:int=0 rotary_embedding_dim:int=0",
    ),
    "BiasAdd": ("X bias skip", "Y", ""),
    "BiasGelu": ("A B", "C", ""),
    "BiasSoftmax": ("data bias", "output", "axis:int=1 is_inner_broadcast:int!"),
    "BiasSplitGelu": ("X bias", "Y", ""),
    "CDist": ("A:2 B:2", "C", "metric:str=sqeuclidean"),
    "DequantizeLinear": ("x x_scale x_zero_point?", "y", "axis:int=1 block_size:int=0"),
    "DynamicQuantizeMatMul": ("A B b_scale b_zero_point? bias?", "Y", ""),
    "EmbedLayerNormalization": (
        (
            "input_ids:2 segment_ids:2? word_embedding:2 position_embedding:2 segment_embedding:2? gamma:1 beta:1 "
            "mask:2? position_ids:2?"
        ),
        "output mask_index? embedding_sum?",
        "epsilon:float=1e-12 mask_index_type:int",
    ),
    "ExpandDims": ("X axis", "Y", ""),
    "FastGelu": ("X bias?", "Y", ""),
    "FusedConv": ("X W B? Z?", "Y", f"{CONVOLUTION} activation:str activation_params:floats"),
    "FusedGemm": (
        "A B C?",
        "Y",
        (
            "alpha:float=1 beta:float=1 transA:int=0 transB:int=0 activation:str activation_alpha:float "
            "activation_beta:float activation_gamma:float"
        ),
    ),
    "FusedMatMul": (
        "A B",
        "Y",
        "alpha:float=1 transA:int=0 transB:int=0 transBatchA:int=0 transBatchB:int=0",
    ),
    "Gelu": ("X", "Y", ""),
    "GroupNorm": ("X gamma beta", "Y", "activation:int! channels_last:int=1 epsilon:float=1e-05 groups:int!"),
    "GroupQueryAttention": (
        ("query:3 key:3? value:3? past_key:4? past_value:4? seqlens_k total_sequence_length cos_cache:2? sin_cache:2?"),
        "output present_key? present_value?",
        (
            "num_heads:int! kv_num_heads:int! scale:float do_rotary:int=0 rotary_interleaved:int=0 softcap:float=0 "
            "local_window_size:int=-1 smooth_softmax:int=-1"
        ),
    ),
    "MatMulIntegerToFloat": ("A B a_scale b_scale a_zero_point? b_zero_point? bias?", "Y", ""),
    "MatMulNBits": (
        "A B scales zero_points? g_idx? bias?",
        "Y",
        "K:int! N:int! bits:int=4 block_size:int! accuracy_level:int=0 weight_prepacked:int=0",
    ),
    "MultiHeadAttention": (
        ("query:3-5 key:3-5? value:3-4? bias:1? key_padding_mask:1-3? attention_bias:4? past_key:4? past_value:4?"),
        "output present_key? present_value?",
        HEADS,
    ),
    "NhwcMaxPool": ("x", "y", f"{WINDOW} ceil_mode:int=0"),
    "Pad": ("data pads value?", "output", "mode:str=constant"),
    "QGemm": (
        "A:2 a_scale a_zero_point B:2 b_scale b_zero_point C? y_scale? y_zero_point?",
        "Y",
        "alpha:float=1 transA:int=0 transB:int=0",
    ),
    "QLinearAdd": (BINARY, "C", ""),
    "QLinearAveragePool": (
        UNARY,
        "Y",
        (
            "auto_pad:str=NOTSET kernel_shape:ints! pads:ints strides:ints ceil_mode:int=0 count_include_pad:int=0 "
            "channels_last:int=0"
        ),
    ),
    "QLinearConcat": ("Y_scale Y_zero_point inputs*", "Y", "axis:int!"),
    "QLinearConv": (
        "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B?",
        "y",
        f"{CONVOLUTION} channels_last:int=0",
    ),
    "QLinearGlobalAveragePool": (
        "X x_scale x_zero_point y_scale y_zero_point",
        "Y",
        "channels_last:int=0",
    ),
    "QLinearLeakyRelu": (UNARY, "Y", "alpha:float=0.01"),
    "QLinearMul": (BINARY, "C", ""),
    "QLinearReduceMean": (
        "data data_scale data_zero_point? reduced_scale reduced_zero_point?",
        "reduced",
        "axes:ints! keepdims:int!",
    ),
    "QLinearSigmoid": (UNARY, "Y", ""),
    "QLinearSoftmax": ("X X_scale X_zero_point? Y_scale Y_zero_point", "Y", "axis:int=-1 opset:int!"),
    "QLinearWhere": (
        "condition X x_scale x_zero_point Y y_scale y_zero_point z_scale z_zero_point",
        "Z",
        "",
    ),
    "QuantizeLinear": ("x y_scale y_zero_point?", "y", "axis:int=1 block_size:int=0 saturate:int=1"),
    "QuickGelu": ("X", "Y", "alpha:float=1.702"),
    "RotaryEmbedding": (
        "input:3-4 position_ids:0-2 cos_cache:2 sin_cache:2",
        "output",
        "interleaved:int=0 num_heads:int=0 rotary_embedding_dim:int=0 scale:float=1 is_packed_batching:int=0",
    ),
    "SkipLayerNormalization": (
        "input skip gamma beta? bias?",
        "output mean? inverse? sum?",
        "epsilon:float=1e-12",
    ),
    "SkipSimplifiedLayerNormalization": (
        "input skip gamma bias?",
        "output mean? inverse? sum?",
        "epsilon:float=1e-12",
    ),
    "TransposeMatMul": ("A B", "Y", "alpha:float=1 transA:int=0 transB:int=0"),
    "Trilu": ("X k?", "Y", "upper:int=1"),
}
"""Inputs, outputs and attributes by operator: `?` may be left out, `*` comes any number of times, `!` must be there.

A number or two after an input are its rank; where there is none, its converter takes any or asks itself.
"""


@dataclass(frozen=True, slots=True)
class Signature:
    """How an operator of the runtime is written."""

    inputs: tuple[int, int]
    outputs: tuple[int, int]
    optional: tuple[bool, ...]
    types: tuple[frozenset[str], ...]
    ranks: tuple[tuple[int, int], ...]
    attributes: Mapping[str, tuple[int, bool, onnx.AttributeProto | None]]
    """The number of the type, whether it must be there, and the default."""


@cache
def runtime_signature(operator: str, domain: str) -> Signature | None:
    """Return how an operator that ONNX Runtime adds is written; nothing for one that is not known here.

    >>> found = runtime_signature("FastGelu", "com.microsoft")
    >>> found.inputs, found.optional
    ((1, 2), (False, True))
    """
    listed = {RUNTIME_DOMAIN: RUNTIME_SIGNATURES, "": DEFAULT_SIGNATURES}.get(domain, {}).get(operator)
    if listed is None:
        return None
    inputs, outputs, attributes = (text.split() for text in listed)
    return Signature(
        counts_of(inputs),
        counts_of(outputs),
        tuple(not name[-1].isalnum() for name in inputs),
        (EVERY_TYPE,) * len(inputs),
        tuple(map(ranks_of, inputs)),
        dict(map(attribute_of, attributes)),
    )


def counts_of(names: Sequence[str]) -> tuple[int, int]:
    """Return how few and how many inputs or outputs there are: those after the last that must be there may miss.

    >>> counts_of(["X", "bias?"]), counts_of(["scale", "inputs*"])
    ((1, 2), (1, 2147483647))
    """
    needed = max(place for place, name in enumerate(names, 1) if name[-1].isalnum())
    return needed, ANY_NUMBER if names[-1].endswith("*") else len(names)


def ranks_of(text: str) -> tuple[int, int]:
    """Return how few and how many axes an input has.

    >>> ranks_of("mask:1-3?"), ranks_of("past:5?"), ranks_of("X")
    ((1, 3), (5, 5), (0, 2147483647))
    """
    _, said, numbers = text.rstrip("?*").partition(":")
    least, _, most = numbers.partition("-")
    return (int(least), int(most or least)) if said else (0, ANY_NUMBER)


def attribute_of(text: str) -> tuple[str, tuple[int, bool, onnx.AttributeProto | None]]:
    """Return the name of an attribute and what is said of it.

    >>> name, (kind, needed, default) = attribute_of("axis:int=-1")
    >>> name, needed, default.i
    ('axis', False, -1)
    """
    name, _, said = text.partition(":")
    kind, given, default = said.partition("=")
    number = KINDS[kind.rstrip("!")]
    if not given:
        return name, (number, kind.endswith("!"), None)
    read = {"int": int, "float": float, "str": str}[kind]
    return name, (number, False, helper.make_attribute(name, read(default)))
