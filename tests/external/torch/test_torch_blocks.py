"""All blocks of networks: equal to PyTorch, and run on the engine; the unit tests have a drawn part of them."""

from __future__ import annotations

import pytest

from unit.formats.torch.block_checks import check_block
from unit.formats.torch.torch_blocks import BLOCKS


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_means_the_same_and_runs_on_the_engine(name: str, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--refresh-results"):
        pytest.skip("the unit tests have a drawn part: make test-external runs all")
    check_block(name)
