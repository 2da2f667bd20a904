"""Language models: a decode step, a prefill and compiling of a decoder of 0.1B, against torch in float32.

    python benchmarks/llm.py

The decoder is a Llama with seeded weights: width 768, 12 layers, 12 heads, 32,000 tokens, context 256. Our weights are
fp16, torch's float32; both have two threads. Times are the least of several runs, in turns: what else the machine does
hits both. Before each turn there is a pause, since threads that wait for more work keep a processor busy for a while,
and a run that does not count, as the other side's numbers are in the caches. Memory is the peak of a process that loads
the model, by what its weights take in fp16. The plan is that of an 8B model without weights.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
import transformers

import aneforge as af
from aneforge.engine.kernels.library import using

if TYPE_CHECKING:
    from collections.abc import Callable

THREADS = 2
RUNS = 9
PAUSE = 0.3
"""Seconds, in which the threads of the other side go to sleep."""
TARGET = "m1"
PROMPT, CONTEXT = 128, 256
PLANNED_CHIPS, PLANNED_CONTEXTS = ("m1", "m4", "m5"), (512, 2048, 8192, 32768)
# What getrusage says of a new process is the peak of the one that started it, where that is larger.
PEAK = "peak = lambda: 1024 * int(next(line.split()[1] for line in open('/proc/self/status') if 'VmHWM' in line))"
SETTINGS: dict[str, int] = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 2048,
    "vocab_size": 32000,
    "max_position_embeddings": CONTEXT,
}


def build_torch(folder: Path) -> torch.nn.Module:
    """Write the decoder to a folder, and return it as torch runs it."""
    config = transformers.AutoConfig.for_model("llama", **SETTINGS)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportArgumentType]
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType] - torch leaves it untyped
    model = transformers.AutoModelForCausalLM.from_config(config)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    model.save_pretrained(str(folder))  # pyright: ignore[reportUnknownMemberType]
    return cast("torch.nn.Module", model).eval()


def timed(call: Callable[[], object]) -> float:
    """Return how long one run takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def take_turn(call: Callable[[], object]) -> float:
    """Return how long one run takes in a row of them."""
    time.sleep(PAUSE)
    call()
    return timed(call)


def compare(what: str, ours: Callable[[], object], theirs: Callable[[], object], most: float) -> None:
    """Print the ratio of the shortest runs."""
    taken = [(take_turn(ours), take_turn(theirs)) for _ in range(RUNS)]
    mine, other = (min(times) for times in zip(*taken, strict=True))
    print(f"{what}: {1e3 * mine:.1f} ms, torch float32 {1e3 * other:.1f} ms: {mine / other:.2f} times (at most {most})")


def measure_memory(folder: Path) -> None:
    """Print the peak of a process that loads the model and generates, less what the package takes by itself."""
    loading = (
        f"import aneforge as af; {PEAK}; from aneforge.llm.architecture import count_parameters; before = peak(); "
        f"lm = af.llm.load({os.fspath(folder)!r}, target={TARGET!r}, context={CONTEXT}); "
        "lm.generate([1, 2, 3], max_new_tokens=2, end_tokens=()); "
        "print(peak() - before, 2 * count_parameters(lm.config))"
    )
    run = subprocess.run([sys.executable, "-c", loading], capture_output=True, text=True, check=True)
    taken, weights = map(float, run.stdout.split())
    print(
        f"memory: {taken / 1e6:.0f} MB for {weights / 1e6:.0f} MB of weights in fp16: "
        f"{taken / weights:.2f} times (at most 1.2)"
    )


def measure_plan() -> None:
    """Print time and memory of the plan of an 8B model, without weights, in a process that imports nothing else."""
    settings = Path(__file__).parents[1] / "examples" / "llm" / "llama-8b.json"
    arguments = f"{os.fspath(settings)!r}, {PLANNED_CHIPS}, contexts={PLANNED_CONTEXTS}"
    planning = (
        "import time; begin = time.perf_counter(); import aneforge as af; "
        f"af.llm.plan_decoder({arguments}); "
        f"{PEAK}; print(time.perf_counter() - begin, time.process_time(), peak())"
    )
    run = subprocess.run([sys.executable, "-c", planning], capture_output=True, text=True, check=True)
    seconds, processor, peak = map(float, run.stdout.split())
    what = f"plan of 8B, {len(PLANNED_CHIPS)} chips, {len(PLANNED_CONTEXTS)} contexts"
    print(f"{what}: {seconds:.1f} s ({processor:.1f} s of one core; at most 3), {peak / 1e6:.0f} MB (at most 1000)")


def main() -> None:
    """Measure."""
    os.environ["ANEFORGE_CACHE_BYTES"] = "0"  # programs are compiled here, and not found
    torch.set_num_threads(THREADS)
    with tempfile.TemporaryDirectory() as name, torch.no_grad(), using(threads=THREADS):
        folder = Path(name)
        reference = build_torch(folder)
        ids = list(range(100, 100 + PROMPT))
        tokens = torch.tensor([ids])
        lm = af.llm.load(folder, target=TARGET, context=CONTEXT)
        step = timed(lm.step_program)
        prefill = timed(lambda: lm.prefill_program(PROMPT))
        print(
            f"weights read, decode compiled: {step:.1f} s, prefill {prefill:.1f} s: {step + prefill:.1f} s (at most 6)"
        )
        compare(f"prefill of {PROMPT}", lambda: lm.prefill(ids), lambda: reference(tokens, use_cache=True), 3.0)
        held = reference(tokens, use_cache=True).past_key_values

        def our_step() -> None:
            lm.step(5)
            lm.rewind(PROMPT)

        def their_step() -> None:
            reference(torch.tensor([[5]]), past_key_values=held, use_cache=True)
            held.crop(-1)

        compare(f"decode step after {PROMPT} tokens", our_step, their_step, 2.5)
        lm.release()
        measure_memory(folder)
    measure_plan()


if __name__ == "__main__":
    main()
