"""The functions of Espresso.framework that dispatch calls, with their types, and which of them a framework must have.

Source: aneforge docs, e5rt dispatch. What no document states is marked "inferred".
"""

from __future__ import annotations

import ctypes
from functools import cached_property
from typing import TYPE_CHECKING, Any

from aneforge.errors import RuntimeStateError
from aneforge.records import dataclass
from aneforge.runtime.dispatch.native_calls import Signature, bind_functions, load_library

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["CUSTOM_OPTIONS", "EspressoFunctions"]

P, TEXT, SIZE, ERROR = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int64
OUT = ctypes.POINTER(P)
CREATED = Signature(ERROR, (OUT,))
RELEASED = Signature(ERROR, (OUT,))
WITH_OBJECT = Signature(ERROR, (OUT, P))
RETAINED = Signature(ERROR, (P, TEXT, OUT))
NAMED = Signature(ERROR, (P, TEXT))
OBJECT = Signature(ERROR, (P,))
PAIR = Signature(ERROR, (P, P))

SIGNATURES = {
    "e5rt_e5_compiler_config_options_create": CREATED,
    "e5rt_e5_compiler_config_options_set_cache_bundle_location": NAMED,
    "e5rt_e5_compiler_create_with_config": WITH_OBJECT,
    "e5rt_e5_compiler_options_create": CREATED,
    "e5rt_e5_compiler_options_set_compute_device_types_mask": Signature(ERROR, (P, ctypes.c_uint64)),
    "e5rt_e5_compiler_options_set_force_recompilation": Signature(ERROR, (P, ctypes.c_int)),
    "e5rt_e5_compiler_options_set_segmenter": NAMED,
    "e5rt_e5_compiler_compile": Signature(ERROR, (P, TEXT, P, OUT)),
    "e5rt_program_library_retain_program_function": RETAINED,
    "e5rt_program_library_release": RELEASED,
    "e5rt_program_function_release": RELEASED,
    "e5rt_precompiled_compute_op_create_options_create_with_program_function": WITH_OBJECT,
    "e5rt_precompiled_compute_op_create_options_set_operation_name": NAMED,
    "e5rt_precompiled_compute_op_create_options_set_allocate_intermediate_buffers": Signature(ERROR, (P, ctypes.c_int)),
    "e5rt_precompiled_compute_op_create_options_release": RELEASED,
    "e5rt_execution_stream_operation_create_precompiled_compute_operation_with_options": WITH_OBJECT,
    "e5rt_execution_stream_operation_retain_input_port": RETAINED,
    "e5rt_execution_stream_operation_retain_output_port": RETAINED,
    "e5rt_execution_stream_operation_bind_completion_event": PAIR,
    "e5rt_execution_stream_operation_release": RELEASED,
    "e5rt_buffer_object_alloc": Signature(ERROR, (OUT, SIZE, ctypes.c_int)),
    "e5rt_buffer_object_get_data_ptr": Signature(ERROR, (P, OUT)),
    "e5rt_buffer_object_release": RELEASED,
    "e5rt_io_port_bind_buffer_object": PAIR,
    "e5rt_io_port_release": RELEASED,
    "e5rt_async_event_create": Signature(ERROR, (OUT, TEXT, ctypes.c_uint64)),
    "e5rt_async_event_release": RELEASED,
    "e5rt_execution_stream_create": CREATED,
    "e5rt_execution_stream_encode_operation": PAIR,
    "e5rt_execution_stream_execute_sync": OBJECT,
    "e5rt_execution_stream_release": RELEASED,
}
"""What compiling and running a program takes."""
CUSTOM_OPTIONS = "e5rt_e5_compiler_options_set_custom_ane_compiler_options"
ERROR_MESSAGE = "e5rt_get_last_error_message"
OTHERS = {
    CUSTOM_OPTIONS: NAMED,
    "e5rt_e5_compiler_options_set_enable_profiling": Signature(ERROR, (P, ctypes.c_int)),
    "e5rt_e5_compiler_config_options_release": RELEASED,
    "e5rt_e5_compiler_release": RELEASED,
    "e5rt_e5_compiler_options_release": RELEASED,
    "e5rt_execution_stream_operation_bind_dependent_events": Signature(ERROR, (P, OUT, SIZE)),
    "e5rt_execution_stream_operation_prepare_op_for_encode": OBJECT,
    "e5rt_async_event_get_last_signaled_value": Signature(ERROR, (P, ctypes.POINTER(ctypes.c_uint64))),
    "e5rt_execution_stream_submit_async": PAIR,
    "e5rt_execution_stream_reset": OBJECT,
    "e5rt_get_last_error_message": Signature(TEXT, ()),
}
"""What some uses take, or no document names in full: bound when it is called, so that a framework that lacks one of
them runs programs nevertheless."""
OTHER_PREFIX = "e5rt_e5_compiler", "e5rt_compiler"
"""Inferred: the documents write the compiler's functions without their prefix, which may be either."""


@dataclass(frozen=True)
class EspressoFunctions:
    """The functions of a framework."""

    path: str

    @cached_property
    def library(self) -> ctypes.CDLL:
        """The framework itself."""
        return load_library(self.path)

    @cached_property
    def needed(self) -> dict[str, Callable[..., Any]]:
        """The functions of the documented order.

        Raises:
            RuntimeStateError: The framework cannot be loaded, or lacks one of them.
        """
        return self.bound(SIGNATURES)

    @cached_property
    def others(self) -> dict[str, Callable[..., Any]]:
        """Those of the other functions that were called."""
        return {}

    def bound(self, signatures: Mapping[str, Signature]) -> dict[str, Callable[..., Any]]:
        """Return functions of the framework by the names that they have here.

        Raises:
            RuntimeStateError: The framework cannot be loaded, or lacks one of them.
        """
        called = {name: self.spelling(name) for name in signatures}
        found = bind_functions(self.library, self.path, {called[name]: one for name, one in signatures.items()})
        return {name: found[one] for name, one in called.items()}

    def spelling(self, name: str) -> str:
        """Return what the framework calls a function; the usual name where it has neither."""
        other = name.replace(*OTHER_PREFIX)
        return other if hasattr(self.library, other) and not hasattr(self.library, name) else name

    def function(self, name: str) -> Callable[..., Any]:
        """Return a function of the framework.

        Raises:
            RuntimeStateError: The framework lacks it.
        """
        if name in SIGNATURES:
            return self.needed[name]
        if name not in self.others:
            self.others.update(self.bound({name: OTHERS[name]}))
        return self.others[name]

    def has(self, name: str) -> bool:
        """Return whether the framework has a function."""
        try:
            self.function(name)
        except RuntimeStateError:
            return False
        return True

    def last_message(self) -> str:
        """Return what the framework says of the last error."""
        message = self.function(ERROR_MESSAGE)() if self.has(ERROR_MESSAGE) else None
        return (message or b"").decode(errors="replace") or "no message"
