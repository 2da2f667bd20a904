"""Language models: a decode step, a prefill and compiling of a decoder of 0.1B, against torch in float32.

    python benchmarks/llm.py
    python benchmarks/llm.py --write    also write the figures to benchmarks/results/llm.tsv

The decoder is a Llama with seeded weights: width 768, 12 layers, 12 heads, 32,000 tokens, context 256. Our weights are
fp16, torch's float32; both have two threads. Times are the least of several runs, in turns: what else the machine does
hits both. Before each turn there is a pause, since threads that wait for more work keep a processor busy for a while,
and a run that does not count, as the other side's numbers are in the caches. Memory is the peak of a process that loads
the model and generates, less what the package takes by itself: by what its weights take in fp16, and for every encoding
what it is above 1.2 times what is baked (the weights that programs hold, in their encoding; a table of embeddings is
read from the file), which does not grow with the model. The plan is that of an 8B model without weights.
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
ENCODINGS = ("int8", "int4", "blockwise")
RESULTS = Path(__file__).parent / "results" / "llm.tsv"
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


class Figures:
    """What was measured, printed at once and written at last."""

    def __init__(self) -> None:
        self.rows: list[str] = []

    def add(self, what: str, seen: str, value: float, unit: str, most: float) -> None:
        """Print a figure, with what it was found from and its budget."""
        print(f"{what}: {seen}: {value:.2f} {unit} (at most {most})", flush=True)
        self.rows.append(f"{what}\t{seen}\t{value:.2f}\t{unit}\t{most}")

    def write(self) -> None:
        """Write all of them."""
        text = "\n".join(("what\tfrom\tvalue\tunit\tbudget", *self.rows, ""))
        unfinished = RESULTS.with_suffix(".unfinished")
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(RESULTS)

    def compare(
        self, what: str, ours: Callable[[], object], other: str, theirs: Callable[[], object], most: float
    ) -> None:
        """Add the ratio of the shortest runs."""
        taken = [(take_turn(ours), take_turn(theirs)) for _ in range(RUNS)]
        mine, least = (min(times) for times in zip(*taken, strict=True))
        self.add(what, f"{1e3 * mine:.1f} ms, {other} {1e3 * least:.1f} ms", mine / least, "times", most)


def measure_memory(figures: Figures, folder: Path, encoding: str | None) -> None:
    """Add the peak of a process that loads the model and generates, less what the package takes by itself."""
    loading = (
        f"import aneforge as af; {PEAK}; from aneforge.llm.architecture import count_parameters; before = peak(); "
        f"lm = af.llm.load({os.fspath(folder)!r}, target={TARGET!r}, context={CONTEXT}, compress={encoding!r}); "
        "lm.generate([1, 2, 3], max_new_tokens=2, end_tokens=()); taken = peak() - before; "
        "encoded = lm.encoded.held if lm.encoded else {}; "
        "baked = sum(one.nbytes for one in (*encoded.values(), *lm.weights.held.values())); "
        "print(taken, 2 * count_parameters(lm.config), baked)"
    )
    run = subprocess.run([sys.executable, "-c", loading], capture_output=True, text=True, check=True)
    taken, weights, baked = map(float, run.stdout.split())
    peak, name = f"peak of {taken / 1e6:.0f} MB", encoding or "fp16"
    if encoding is None:
        figures.add(f"memory, {name}", f"{peak}, weights {weights / 1e6:.0f} MB", taken / weights, "times", 1.2)
    above = (taken - 1.2 * baked) / 1e6
    figures.add(
        f"memory above 1.2 times what is baked, {name}", f"{peak}, baked {baked / 1e6:.0f} MB", above, "MB", 100
    )


def measure_encodings(figures: Figures, folder: Path, dense: af.llm.LanguageModel, ids: list[int]) -> None:
    """Add the step of every encoding, by that of fp16."""
    for encoding in ENCODINGS:
        with af.llm.load(folder, target=TARGET, context=CONTEXT, compress=encoding) as encoded:
            encoded.prefill(ids)
            what = f"decode step in {encoding} after {PROMPT} tokens"
            figures.compare(what, lambda lm=encoded: one_step(lm), "fp16", lambda: one_step(dense), 1.5)


def one_step(lm: af.llm.LanguageModel) -> None:
    """Run a token and take it back."""
    lm.step(5)
    lm.rewind(PROMPT)


def measure_plan(figures: Figures) -> None:
    """Add time and memory of the plan of an 8B model, without weights, in a process that imports nothing else."""
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
    figures.add(what, f"{seconds:.1f} s", processor, "s of one core", 3)
    figures.add(f"{what}, memory", "peak", peak / 1e6, "MB", 1000)


def main() -> None:
    """Measure."""
    figures = Figures()
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
        seen = f"decode {step:.1f} s, prefill {prefill:.1f} s"
        figures.add("weights read and programs compiled", seen, step + prefill, "s", 6)
        other = "torch float32"
        figures.compare(
            f"prefill of {PROMPT}", lambda: lm.prefill(ids), other, lambda: reference(tokens, use_cache=True), 3.0
        )
        held = reference(tokens, use_cache=True).past_key_values

        def their_step() -> None:
            reference(torch.tensor([[5]]), past_key_values=held, use_cache=True)
            held.crop(-1)

        figures.compare(f"decode step after {PROMPT} tokens", lambda: one_step(lm), other, their_step, 2.5)
        measure_encodings(figures, folder, lm, ids)
        lm.release()
        for encoding in (None, *ENCODINGS):
            measure_memory(figures, folder, encoding)
    measure_plan(figures)
    if "--write" in sys.argv:
        figures.write()


if __name__ == "__main__":
    main()
