"""What fuzzing found (tools/fuzz_netplist.py): each was something else than one of the package's own errors."""

from __future__ import annotations

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.formats.netplist.document import Network, Unit
from aneforge.formats.netplist.layer import Layer
from aneforge.formats.netplist.netplist_weights import WeightFiles
from aneforge.formats.netplist.reading import parse_netplist
from aneforge.formats.netplist.sketch import one_unit
from aneforge.ops.constant import Dense


def test_a_constant_gain_of_other_channels() -> None:
    gain = np.ones((1, 1, 1, 1, 1), np.float16)
    sketch = one_unit("DynamicGOC", {"x": (1, 2**54, 1, 1, 1)}, {}, constants={"g": gain})
    with pytest.raises(GraphError, match="a gain or an offset has other channels than x"):
        parse_netplist(sketch.data(), sketch.weights)


def test_a_constant_never_takes_a_shape_of_other_elements() -> None:
    unit = Unit("u", "Flatten", (), {}, ())
    layer = Layer(unit, (), Network("net", (unit,), ()), WeightFiles({}))
    with pytest.raises(GraphError, match="a tensor has another number of elements"):
        layer.reshaped(Dense(np.ones(2, np.float16)), (3,))
