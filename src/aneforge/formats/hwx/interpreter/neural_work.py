"""What a task of the neural engine computes: copies, convolutions, sums and maxima of channels, and activations."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.formats.hwx.descriptors.meaning import TaskOperation
from aneforge.formats.hwx.interpreter.activation_tables import TABLE_BYTES, ActivationTable, read_table
from aneforge.formats.hwx.interpreter.address_views import MOST_ELEMENTS
from aneforge.formats.hwx.interpreter.coefficients import KernelShape, Packing, packing_of, sparse_kernel, stream_bytes
from aneforge.formats.hwx.interpreter.steps import (
    Bound,
    ChannelMaximum,
    ConstantKernel,
    Convolution,
    Copy,
    RuntimeKernel,
    Sum,
    Window,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from aneforge.formats.hwx.container import Section
    from aneforge.formats.hwx.descriptors.meaning import Epilogue, Kernel, Stream
    from aneforge.formats.hwx.descriptors.meaning import Window as SourceWindow
    from aneforge.formats.hwx.interpreter.steps import Activation, NeuralWork
    from aneforge.formats.hwx.interpreter.task_reader import TaskReader

    Bits = NDArray[np.uint16]

__all__ = ["neural_work"]

EXPECTED_NEURAL: Mapping[str, float] = {
    "common.task_type": 0,
    "common.kernel_depth": 1,
    "common.stride_z": 1,
    "common.pad_front": 0,
    "common.origin_x": 1,
    "common.origin_y": 1,
    "common.origin_z": 1,
    "ne.matrix_bias": 0,
    "ne.matrix_vector_bias": 0,
    "ne.post_scale_mode": 0,
    "ne.post_right_shift": 0,
    "ne.accumulator_bias_shift": 0,
    "ne.palettized": 0,
    "ne.group_kernel_reuse": 0,
}


EXPECTED_SUMS: Mapping[str, float] = {"l2.padding_mode": 0, "ne.binary_point": -4}
"""Fields of tasks that add products: pads are zeros, and products are not shifted."""


def neural_work(reader: TaskReader) -> NeuralWork:
    """Return what a task of the neural engine computes.

    Raises:
        HwxError: It is not understood.
    """
    reader.expect(EXPECTED_NEURAL)
    expect_constants(reader)
    works: Mapping[TaskOperation, Callable[[TaskReader], NeuralWork]] = {
        TaskOperation.CONVOLUTION: convolution_of,
        TaskOperation.CHANNEL_SUM: channel_sum_of,
        TaskOperation.CHANNEL_MAXIMUM: channel_maximum_of,
        TaskOperation.COPY: copy_of,
    }
    if reader.meaning.operation not in works:
        seen = reader.task.integer("ne.mac_operation")
        raise reader.refuse("ne.mac_operation", "the operation is not known", seen=seen)
    return works[reader.meaning.operation](reader)


def kernel_of(reader: TaskReader) -> Kernel:
    """Return the kernel, which every convolution has."""
    return cast("Kernel", reader.meaning.kernel)


def read_window(reader: TaskReader) -> SourceWindow:
    """Return the window, which every task of the neural engine has."""
    return cast("SourceWindow", reader.meaning.window)


def epilogue_of(reader: TaskReader) -> Epilogue:
    """Return the epilogue, which every task of the neural engine has."""
    return cast("Epilogue", reader.meaning.epilogue)


def expect_constants(reader: TaskReader) -> None:
    """Raise the error for weights or a table whose base register is not enabled, or whose form is said in two ways."""
    kernel, epilogue = reader.meaning.kernel, reader.meaning.epilogue
    if kernel is not None or (epilogue is not None and epilogue.table is not None):
        sparse = kernel is not None and kernel.sparse
        reader.expect({"header.kernel_bar_enable": 1, "kernel_source.sparse": int(sparse)})


def copy_of(reader: TaskReader) -> Copy:
    """Return a copy.

    Raises:
        HwxError: Its channels are not copied one by one, or it has a window.
    """
    reader.expect({"common.unicast": 1, "common.unicast_channels": 1, "ne.accumulator_bias": 0})
    expect_plain_window(reader)
    if reader.meaning.sources[0].extents != reader.meaning.result.extents:
        raise reader.refuse("common.result_dimensions", "a copy must have the extents of its source")
    return Copy(epilogue_of(reader).post_scale, activation_of(reader))


def convolution_of(reader: TaskReader) -> Convolution:
    """Return a convolution.

    Raises:
        HwxError: Its kernel has a form that is not known, or is not where it should be.
    """
    reader.expect({"ne.accumulator_bias": 0, **EXPECTED_SUMS})
    kernel = kernel_of(reader)
    if kernel.format != "fp16":
        raise reader.refuse("ne.kernel_format", "only kernels of fp16 are understood", seen=kernel.format)
    window, shape = window_of(reader), kernel_shape_of(reader)
    activation = activation_of(reader)
    found = runtime_kernel_of(reader, shape) if kernel.runtime else constant_kernel_of(reader, shape)
    return Convolution(found, window, epilogue_of(reader).post_scale, activation)


def window_of(reader: TaskReader) -> Window:
    """Return how the kernel goes over the source.

    Raises:
        HwxError: The result does not have the extents that follow, or there are too many products.
    """
    window, source, result = read_window(reader), reader.meaning.sources[0].extents, reader.meaning.result.extents
    if not (window.width and window.height and window.stride_x and window.stride_y):
        raise reader.refuse("common.convolution", "kernel and strides must be at least 1", seen=window)
    if source.depth != 1 or result.depth != 1:
        raise reader.refuse("common.source_depth", "only planes are convolved", seen=source.depth, limit=1)
    rows = (source.height, window.height, window.stride_y, window.pad_top, result.height)
    columns = (source.width, window.width, window.stride_x, window.pad_left, result.width)
    top, bottom = pads_of(reader, *rows, "common.result_height")
    left, right = pads_of(reader, *columns, "common.result_width")
    own = channels_of_one(reader)
    groups = result.channels if window.unicast else reader.meaning.groups
    if window.unicast and own * result.channels != source.channels:
        raise reader.refuse("common.unicast_channels", "every output channel must read its own", seen=own)
    strides = window.stride_y, window.stride_x
    whole = groups * reader.meaning.groups if window.unicast else groups
    return Window(window.height, window.width, strides, (top, bottom, left, right), whole)


def pads_of(
    reader: TaskReader, source: int, kernel: int, stride: int, before: int, result: int, register: str
) -> tuple[int, int]:
    """Return the padding before and after an axis.

    Raises:
        HwxError: With none that is smaller than the kernel the result has another extent.
    """
    after = max(0, (result - 1) * stride + kernel - source - before)
    extent = (source + before + after - kernel) // stride + 1
    if extent != result or after >= kernel or before >= kernel:
        raise reader.refuse(
            register, "the result must have the extent that window and padding give", seen=result, limit=extent
        )
    return before, after


def kernel_shape_of(reader: TaskReader) -> KernelShape:
    """Return what the kernel is made of."""
    kernel, window, result = kernel_of(reader), read_window(reader), reader.meaning.result.extents
    inner, groups = channels_of_one(reader), reader.meaning.groups
    return KernelShape(groups, result.channels, inner, window.height, window.width, kernel.lanes, kernel.bias)


def streams_of(reader: TaskReader, shape: KernelShape) -> list[Stream]:
    """Return the streams of the cores that compute something.

    Raises:
        HwxError: A core in between has none, or there is none at all.
    """
    given = kernel_of(reader).streams
    enabled = [stream for stream in given if stream is not None]
    if not enabled or None in given[: len(enabled)]:
        raise reader.refuse("kernel_source.coefficient_config", "the cores with weights must be the first ones")
    return enabled[: shape.outer]


def constant_kernel_of(reader: TaskReader, shape: KernelShape) -> ConstantKernel:
    """Return a kernel that the file holds.

    Raises:
        HwxError: A stream leaves its section, or is shorter than its coefficients.
    """
    streams = streams_of(reader, shape)
    section, offset = constants_of(reader, streams[0])
    halves = halves_of(section)
    expect_streams(reader, streams, offset, section.size)
    if kernel_of(reader).sparse:
        parts = [halves[(offset + one.base) // 2 : (offset + one.base + one.size) // 2] for one in streams]
        weights, biases = sparse_kernel(shape, parts, reader.index)
    else:
        packing = find_packed_coefficients(reader, shape, streams)
        weights = halves[packing.weights + offset // 2]
        biases = None if packing.biases is None else halves[packing.biases + offset // 2]
    outer = shape.groups * shape.outer
    shaped = weights.reshape(outer, shape.inner, shape.height, shape.width)
    return ConstantKernel(shaped, None if biases is None else biases.reshape(outer))


def runtime_kernel_of(reader: TaskReader, shape: KernelShape) -> RuntimeKernel:
    """Return a kernel that an earlier task wrote.

    Raises:
        HwxError: It has a bias or leaves out zeros, or is not where it should be.
    """
    reader.expect({"ne.has_bias": 0, "ne.sparse_kernel": 0})
    streams = streams_of(reader, shape)
    place = reader.memory.find(streams[0].bar, reader.index, "header.kernel_bar")
    room = reader.memory.room(place.space)
    expect_streams(reader, streams, place.offset, room)
    places = find_packed_coefficients(reader, shape, streams).weights + place.offset // 2
    shaped = places.reshape(shape.groups * shape.outer, shape.inner, shape.height, shape.width)
    return RuntimeKernel(place.space, shaped, "kernel_source.coefficient_base")


def find_packed_coefficients(reader: TaskReader, shape: KernelShape, streams: list[Stream]) -> Packing:
    """Return where the coefficients are.

    Raises:
        HwxError: A core's stream is shorter than its coefficients.
    """
    needed = stream_bytes(shape, len(streams))
    shortest = min(range(len(streams)), key=lambda core: streams[core].size)
    if needed > streams[shortest].size:
        register, size = f"kernel_source.coefficient_size[{shortest}]", streams[shortest].size
        raise reader.refuse(register, "the stream is shorter than its coefficients", seen=size, limit=needed)
    weights = shape.groups * shape.outer * shape.length
    if weights > MOST_ELEMENTS:
        raise reader.refuse("common.convolution", "the kernel has too many weights", seen=weights, limit=MOST_ELEMENTS)
    return packing_of(shape, [stream.base for stream in streams])


def expect_streams(reader: TaskReader, streams: list[Stream], offset: int, room: int) -> None:
    """Raise the error for a stream that leaves its section."""
    for core, stream in enumerate(streams):
        if offset + stream.base + stream.size > room:
            end = offset + stream.base + stream.size
            register = f"kernel_source.coefficient_base[{core}]"
            raise reader.refuse(register, "the stream leaves its section", seen=f"{end:#x}", limit=f"{room:#x}")


def constants_of(reader: TaskReader, stream: Stream) -> tuple[Section, int]:
    """Return the section of constants that a stream is in, and the offset of its base register there.

    Raises:
        HwxError: The base register points elsewhere.
    """
    place = reader.memory.find(stream.bar, reader.index, "header.kernel_bar")
    section = reader.memory.section(place.space)
    if section.content is None:
        raise reader.refuse("header.kernel_bar", "the base register points at no constants", seen=section.path)
    return section, place.offset


def channel_sum_of(reader: TaskReader) -> Sum:
    """Return a sum of channels with implicit weights."""
    window = window_of(reader)
    epilogue = epilogue_of(reader)
    reader.expect({"ne.post_scale": 1, "ne.has_bias": 0, **EXPECTED_SUMS})
    start, activation = epilogue.accumulator_bias, activation_of(reader)
    return Sum(window, channels_of_one(reader), start, activation, from_accumulator=epilogue.range_reduced)


def channels_of_one(reader: TaskReader) -> int:
    """Return how many input channels an output channel reads."""
    window = read_window(reader)
    return window.unicast_channels if window.unicast else reader.meaning.sources[0].extents.channels


def channel_maximum_of(reader: TaskReader) -> ChannelMaximum:
    """Return the largest of some channels.

    Raises:
        HwxError: It has a window: pooling has no evidence.
    """
    reader.expect({"common.unicast": 1, "ne.post_scale": 1, "ne.accumulator_bias": 0})
    expect_plain_window(reader)
    window_of(reader)
    return ChannelMaximum(channels_of_one(reader), activation_of(reader))


def expect_plain_window(reader: TaskReader) -> None:
    """Raise the error for a window of more than one element."""
    names = ("kernel_width", "kernel_height", "stride_x", "stride_y")
    reader.expect({**{f"common.{name}": 1 for name in names}, "common.pad_left": 0, "common.pad_top": 0})


def activation_of(reader: TaskReader) -> Activation:
    """Return what is done to a result before it leaves.

    Raises:
        HwxError: It is not known, or its table is not found.
    """
    epilogue = epilogue_of(reader)
    match epilogue.nonlinearity:
        case "none":
            return Bound.NONE
        case "relu":
            return Bound.RELU
        case "table":
            return table_of(reader, epilogue.table)
        case name:
            raise reader.refuse("ne.nonlinearity", "the activation is not known", seen=name)


def table_of(reader: TaskReader, stream: Stream | None) -> ActivationTable:
    """Return an activation's table.

    Raises:
        HwxError: Where it is is not known, or it leaves its section.
    """
    if stream is None:
        raise reader.refuse("ne.nonlinearity", "the place of a table next to weights is not known")
    section, offset = constants_of(reader, stream)
    start = offset + stream.base
    if stream.size < TABLE_BYTES or start + TABLE_BYTES > section.size:
        raise reader.refuse(
            "kernel_source.coefficient_size[0]",
            "the table must have 128 bytes within its section",
            seen=stream.size,
        )
    return read_table(halves_of(section)[start // 2 : (start + TABLE_BYTES) // 2])


def halves_of(section: Section) -> Bits:
    """Return the content of a section of constants as halfwords."""
    content = cast("memoryview", section.content)
    return np.frombuffer(content[: len(content) // 2 * 2], dtype="<u2")
