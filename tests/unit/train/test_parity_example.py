"""The parity example: it reads both forms of the data, refuses other images, and its network trains."""

from __future__ import annotations

import gzip
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "mnist_parity"


@pytest.fixture
def example(repository: Path) -> Iterator[Any]:
    found = importlib.util.spec_from_file_location(NAME, repository / "examples" / "training" / f"{NAME}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[NAME] = module  # dataclasses look their module up
    found.loader.exec_module(module)
    yield module
    del sys.modules[NAME]


def write_idx(path: Path, rows: int) -> None:
    """Write a file of images or labels, the second kind compressed."""
    shape = (rows, 28, 28) if "images" in path.name else (rows,)
    values = (np.arange(np.prod(shape)) % 10).astype(np.uint8)
    data = bytes([0, 0, 8, len(shape)]) + np.array(shape, ">u4").tobytes() + values.tobytes()
    if len(shape) == 1:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(data))
    else:
        path.write_bytes(data)


def test_other_images_are_refused(example: Any, tmp_path: Path) -> None:  # noqa: ANN401 - a module
    for kind in ("train", "t10k"):
        write_idx(tmp_path / f"{kind}-images-idx3-ubyte", 1000)
        write_idx(tmp_path / f"{kind}-labels-idx1-ubyte", 1000)
    labels = example.read_idx(tmp_path, "t10k-labels-idx1-ubyte")
    assert labels.shape == (1000,)
    assert labels[:3].tolist() == [0, 1, 2]
    with pytest.raises(
        SystemExit, match=r"training images: expected sums of pixels and labels .* these are other images"
    ):
        example.read_images(tmp_path)
    images, kinds = np.zeros((1000, 784), np.uint8), np.zeros(1000, np.uint8)
    np.savez(tmp_path / "other.npz", Xtr=images, ytr=kinds, Xte=images, yte=kinds)
    with pytest.raises(SystemExit, match=r"got \(0, 0\): these are other images"):
        example.read_images(tmp_path / "other.npz")


def bands(example: Any) -> Any:  # noqa: ANN401 - a module, and what it has
    """Return images with a bright band for each label."""
    labels = np.random.default_rng(0).integers(0, 10, 200)
    pixels = (255 * (np.arange(784) // 78 == labels[:, None])).astype(np.uint8)
    return example.Images(pixels, labels)


@pytest.mark.filterwarnings("ignore::aneforge.errors.SliceSaturationWarning")
def test_five_steps_in_one_program_are_five_steps_and_chips_are_compared(example: Any) -> None:  # noqa: ANN401 - a module
    images = bands(example)
    unrolled, other = (example.build_unrolled(images, target, 1024.0) for target in ("m1", "m5"))
    resident = example.build_trainer(images, "m1", 1024.0, "resident")
    assert example.compare_unrolled(unrolled, other, 5).startswith("5 steps on h13 and h17: first difference after 5")
    for _ in range(5):
        resident.step()
    assert example.accuracy_of(unrolled, images) == example.accuracy_of(resident, images)
    for mine, theirs in zip(unrolled.params, resident.state_dict().values(), strict=True):
        np.testing.assert_array_equal(mine.value, theirs)


def test_the_network_of_the_experiment_trains(example: Any) -> None:  # noqa: ANN401 - a module
    trainer = example.build_trainer(bands(example), "m5", 1024.0)
    losses = [trainer.step() for _ in range(5)]
    assert losses[-1] < losses[0]
    assert [one.shape for one in trainer.parameters] == [(9, 8), (1352, 10), (1, 10)]


@pytest.mark.filterwarnings("ignore::aneforge.errors.SliceSaturationWarning")
def test_the_network_fits_every_family_and_its_updates_may_be_on_the_engine(example: Any) -> None:  # noqa: ANN401 - a module
    images = example.Images(np.zeros((100, 784), np.uint8), np.zeros(100, np.int64))
    for target, update in (("m1", "engine"), ("m2-pro", "fp16"), ("m5", "host")):
        report = example.build_trainer(images, target, 1024.0, update).report()
        assert all(one.legality.startswith("ok on") for one in report.all_programs)
        assert len(report.updates) == (0 if update == "host" else 3)
    assert example.scale_of("auto") == "auto"
    assert example.scale_of("16") == 16
