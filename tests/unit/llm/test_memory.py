"""Memory of a process that loads a folder: what is baked, and little more."""

from __future__ import annotations

import json
import math
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from llm_folders import COMMON

STATUS = Path("/proc/self/status")
WIDTH, HIDDEN, LAYERS = 1024, 4096, 4
AT_A_TIME = 100e6
"""What programs, libraries that they load, and encoding one weight take: it does not grow with the weights."""
LOADING = """
import re, sys, aneforge as af
from pathlib import Path
def peak():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
model = af.llm.load(sys.argv[1], target="m1", context=16)
before = peak()
model.step_program()
model.prefill_program(2)
print(peak() - before, sum(one.nbytes for one in model.weights.held.values()))
"""
ENCODED = """
import re, sys, aneforge as af
from pathlib import Path
def peak():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
model = af.llm.load(sys.argv[1], target="m1", compress="int8", context=16)
before = peak()
model.prefill([1, 2])
model.step(3)
print(peak() - before, sum(one.nbytes for one in (*model.encoded.held.values(), *model.weights.held.values())))
"""


def write_sparse_folder(folder: Path) -> int:
    """Write a Llama whose weights are holes in a file, but for a number each, and take no space; return their bytes."""
    settings = {**COMMON, "model_type": "llama", "hidden_size": WIDTH, "intermediate_size": HIDDEN}
    settings |= {"num_hidden_layers": LAYERS, "num_attention_heads": 8, "num_key_value_heads": 8}
    shapes = {"model.embed_tokens.weight": [160, WIDTH], "lm_head.weight": [160, WIDTH], "model.norm.weight": [WIDTH]}
    for number in range(LAYERS):
        prefix = f"model.layers.{number}."
        shapes |= {f"{prefix}self_attn.{one}_proj.weight": [WIDTH, WIDTH] for one in "qkvo"}
        shapes |= {f"{prefix}mlp.{one}_proj.weight": [HIDDEN, WIDTH] for one in ("gate", "up")}
        shapes |= {f"{prefix}{one}_layernorm.weight": [WIDTH] for one in ("input", "post_attention")}
        shapes[f"{prefix}mlp.down_proj.weight"] = [WIDTH, HIDDEN]
    entries: dict[str, object] = {}
    begins: list[int] = []
    end = 0
    for name, shape in shapes.items():
        begin, end = end, end + 4 * math.prod(shape)
        begins.append(begin)
        entries[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    header = json.dumps(entries).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + end)
        for number, offset in enumerate(begins):  # no two tensors are equal, which would share their memory
            file.seek(8 + len(header) + offset)
            file.write(struct.pack("<f", number + 1))
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    return end


@pytest.mark.skipif(not STATUS.exists(), reason="the peak of a process is read from /proc")
def test_loading_peaks_at_what_is_baked_and_a_fifth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANEFORGE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("ANEFORGE_CACHE_BYTES", raising=False)
    assert write_sparse_folder(tmp_path) > 250e6
    for _ in ("compiled", "found in the cache"):
        run = subprocess.run([sys.executable, "-c", LOADING, tmp_path], capture_output=True, text=True, check=True)
        peak, baked = map(int, run.stdout.split())
        assert baked > 125e6
        assert peak < 1.2 * baked
        assert 0 < sum(file.stat().st_size for file in tmp_path.rglob("*.aneprg")) < 0.01 * baked


@pytest.mark.skipif(not STATUS.exists(), reason="the peak of a process is read from /proc")
def test_encoded_weights_are_held_once_by_all_programs(tmp_path: Path) -> None:
    write_sparse_folder(tmp_path)
    run = subprocess.run([sys.executable, "-c", ENCODED, tmp_path], capture_output=True, text=True, check=True)
    peak, baked = map(int, run.stdout.split())
    assert 60e6 < baked < 80e6
    assert peak < 1.2 * baked + AT_A_TIME
