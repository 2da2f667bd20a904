"""Write a small Llama with seeded weights to a folder, as a checkpoint of Hugging Face is laid out.

    python examples/llm/write_small_model.py small-llama

Nothing is downloaded, and nothing but safetensors is needed. Its tokens mean nothing: it shows how a folder becomes
programs and tokens. `tokenizer.json` is made where the library tokenizers is installed: a token for every byte.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType] - a type of its path is open

WIDTH, LAYERS, HEADS, SHARED, HIDDEN, VOCABULARY = 64, 2, 4, 2, 128, 256
SETTINGS = {
    "model_type": "llama",
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": SHARED,
    "intermediate_size": HIDDEN,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}


def weights(seed: int = 0) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float16]]]:
    """Return every tensor by its name, in fp16."""
    random = np.random.Generator(np.random.PCG64(seed))
    head = WIDTH // HEADS
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCABULARY, WIDTH)}
    for number in range(LAYERS):
        prefix = f"model.layers.{number}"
        shapes |= {
            f"{prefix}.self_attn.q_proj.weight": (HEADS * head, WIDTH),
            f"{prefix}.self_attn.k_proj.weight": (SHARED * head, WIDTH),
            f"{prefix}.self_attn.v_proj.weight": (SHARED * head, WIDTH),
            f"{prefix}.self_attn.o_proj.weight": (WIDTH, HEADS * head),
            f"{prefix}.mlp.gate_proj.weight": (HIDDEN, WIDTH),
            f"{prefix}.mlp.up_proj.weight": (HIDDEN, WIDTH),
            f"{prefix}.mlp.down_proj.weight": (WIDTH, HIDDEN),
            f"{prefix}.input_layernorm.weight": (WIDTH,),
            f"{prefix}.post_attention_layernorm.weight": (WIDTH,),
        }
    shapes |= {"model.norm.weight": (WIDTH,), "lm_head.weight": (VOCABULARY, WIDTH)}
    return {
        name: np.ones(shape, np.float16)
        if len(shape) == 1
        else (random.standard_normal(shape) / np.sqrt(shape[1])).astype(np.float16)
        for name, shape in shapes.items()
    }


def write_tokenizer(folder: Path) -> None:
    """Write a tokenizer that has a token for every byte."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # noqa: PLC0415 - not everyone has it

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={one: place for place, one in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))


def write_model(folder: Path) -> None:
    """Write the model."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(SETTINGS, indent=1), encoding="utf-8")
    save_file(weights(), folder / "model.safetensors")
    if importlib.util.find_spec("tokenizers") is not None:
        write_tokenizer(folder)


if __name__ == "__main__":
    write_model(Path(sys.argv[1]))
