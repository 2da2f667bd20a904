"""Requests end as they did in the study: what validates, what preparing answers, and what bad input is refused with."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import (
    BackendUnavailableError,
    ChainingError,
    GraphError,
    GraphTypeError,
    RuntimeStateError,
    UnknownNameError,
)
from aneforge.runtime.chaining import (
    ANEBuffer,
    ANEChainingRequest,
    ANEDeviceController,
    ANEInMemoryModel,
    ANEInMemoryModelDescriptor,
    ANEInputBuffersReady,
    ANEIOSurfaceObject,
    ANEIOSurfaceOutputSets,
    ANEModel,
    ANEModelInstanceParameters,
    ANEOutputSetEnqueue,
    ANEPerformanceStats,
    ANEProgramIOSurfacesMapper,
    ANEQoSMapper,
    ANERequest,
    ANESharedEvents,
    ANESharedSignalEvent,
    ANESharedWaitEvent,
    ChainOptions,
    IOSurface,
    ModelState,
)
from chain_tools import BYTES, CLIENT, Link, adding, buffer, layer, surface

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aneforge.compiler.ir.program import Program

CODE_15 = (
    'Error Domain=com.apple.appleneuralengine Code=15 "ANEProgramChainingPrepare() Failed: Program chaining prepare '
    'error"'
)


@pytest.fixture(scope="module")
def program() -> Program:
    return layer(0)


@pytest.fixture
def model(program: Program) -> Iterator[ANEModel]:
    with ANEModel.with_symbol_table([program], simulate=True) as made:
        yield made


def request_of(
    inputs: object = None,
    output_sets: object = None,
    *,
    symbols: tuple[object, object, object] = (None, None, None),
    signal_events: object = (),
    transaction_handle: object = 0,
) -> ANEChainingRequest:
    """Return the request that validates (experiment L.4), with some of it exchanged."""
    return ANEChainingRequest(
        [buffer(IOSurface(BYTES, "x"))] if inputs is None else inputs,
        [output_set()] if output_sets is None else output_sets,
        *symbols,
        signal_events,
        transaction_handle,
    )


def output_set(stats: IOSurface | None = None) -> ANEIOSurfaceOutputSets:
    return ANEIOSurfaceOutputSets(stats or IOSurface(64, "stats"), [buffer(IOSurface(BYTES, "y"), source=1)])


def populated(program: Program) -> tuple[ANEInMemoryModel, ANEModel]:
    """Return a loaded in-memory model and the shell with its handle and program (experiment E)."""
    memory = ANEInMemoryModel(ANEInMemoryModelDescriptor(program))
    memory.compile()
    memory.load()
    assert memory.program is not None
    shell = ANEModel.model_at_url("model_folder", memory.hex_string_identifier)
    shell.set_program_handle(memory.program_handle)
    shell.set_program(memory.program)
    return memory, shell


RAW = ANEIOSurfaceObject(IOSurface(BYTES, "raw"))


@pytest.mark.parametrize(
    ("request_", "rule", "system"),
    [
        (request_of([RAW]), "CHAIN-INPUT-001", "-[_ANEIOSurfaceObject symbolIndex]: unrecognized selector"),
        (request_of([IOSurface(8)]), "CHAIN-INPUT-001", "-[_ANEIOSurfaceObject symbolIndex]: unrecognized selector"),
        (request_of([]), "CHAIN-INPUT-002", ""),
        (request_of(buffer(IOSurface(8))), "CHAIN-INPUT-002", ""),
        (request_of(output_sets=[RAW]), "CHAIN-OUTPUT-001", "validate: NO"),
        (request_of(output_sets=[]), "CHAIN-OUTPUT-001", "validate: NO"),
        (
            request_of(output_sets=[ANEIOSurfaceOutputSets(None, [])]),
            "CHAIN-OUTPUT-002",
            "+[_ANEIOSurfaceOutputSets objectWithstatsSurRef:outputBuffer:] returns nil",
        ),
        (
            request_of(output_sets=[None]),
            "CHAIN-OUTPUT-002",
            "+[_ANEIOSurfaceOutputSets objectWithstatsSurRef:outputBuffer:] returns nil",
        ),
        (
            request_of(output_sets=[ANEIOSurfaceOutputSets(IOSurface(64), [RAW])]),  # pyright: ignore[reportArgumentType] - the subject
            "CHAIN-OUTPUT-003",
            "-[_ANEIOSurfaceObject symbolIndex]: unrecognized selector",
        ),
        (
            request_of(symbols=(-1, None, None)),
            "CHAIN-NIL-001",
            "-[NSConstantIntegerNumber count]: unrecognized selector",
        ),
        (
            request_of(symbols=([0], None, None)),
            "CHAIN-NIL-002",
            "-[NSArray unsignedIntegerValue]: unrecognized selector",
        ),
        (request_of(symbols=("0", None, None)), "CHAIN-NIL-003", ""),
        (request_of(signal_events=None), "CHAIN-EVENT-001", ""),
        (request_of(signal_events=[1]), "CHAIN-EVENT-001", ""),
        (request_of(transaction_handle=None), "CHAIN-NUMBER-001", ""),
        (request_of(transaction_handle=-1), "CHAIN-NUMBER-001", ""),
    ],
)
def test_what_validate_says_no_to(request_: ANEChainingRequest, rule: str, system: str) -> None:
    answer = request_.validate()
    assert not answer
    assert [finding.rule for finding in answer.findings] == [rule]
    (finding,) = answer.findings
    assert finding.known.system == system
    said = f"The system says: {system}." if system else "What the system says is not known."
    assert said in str(answer)
    assert finding.known.why in str(answer)
    assert "maderix repository, experiment" in str(answer)
    with pytest.raises(ChainingError, match="prepareChainingWithModel: ") as raised:
        CLIENT.prepare_chaining(ANEModel.model_at_url("folder", "0"), request_)
    assert raised.value.system == (system or finding.known.rule)
    assert raised.value.experiments == finding.known.experiments


@pytest.mark.parametrize(
    ("symbols", "rules"),
    cast(
        "list[tuple[tuple[object, object, object], list[str]]]",
        [
            (([-1], [-1], [0]), ["CHAIN-NIL-002"] * 3),
            (([0], [0], [0]), ["CHAIN-NIL-002"] * 3),
            (([], [], []), ["CHAIN-NIL-002"] * 3),
            ((None, None, None), []),
            ((-1, -1, 0), ["CHAIN-NIL-001"] * 3),
        ],
    ),
    ids=["L.1", "L.2", "L.3", "L.4", "L.5"],
)
def test_the_five_combinations_of_experiment_l(symbols: tuple[object, object, object], rules: list[str]) -> None:
    answer = request_of(symbols=symbols).validate()
    assert [finding.rule for finding in answer.findings] == rules
    assert answer.ok is not bool(rules)


def test_every_parameter_of_nine_is_checked() -> None:
    wrong = ANEChainingRequest(1, 1, 1, 1, 1, 1, "a", 1.5, True)  # noqa: FBT003 - a boolean is no number here
    assert [finding.parameter for finding in wrong.validate().findings] == [
        "inputs",
        "outputSets",
        "lbInputSymbolId",
        "lbOutputSymbolId",
        "procedureIndex",
        "signalEvents",
        "transactionHandle",
        "fwEnqueueDelay",
        "memoryPoolId",
    ]


def test_any_stats_surface_will_do_and_other_sizes_are_noted() -> None:
    assert str(request_of().validate()) == "validate: YES"
    answer = request_of(output_sets=[output_set(IOSurface(16, "small"))]).validate()
    assert str(answer) == (
        "validate: YES\nnote: <surface 'small' of 16 bytes> as a stats surface: only 64 bytes were tried"
    )


def test_a_request_prints_as_the_system_prints_it() -> None:
    assert str(request_of([RAW])) == (
        "_ANEChainingRequest: { inputBuffer=( _ANEIOSurfaceObject: { ioSurface=raw ; startOffset=0 } ) ; outputSets=( "
        "_ANEIOSurfaceOutputSets: { statsSurRef=stats ; outputBuffer=( _ANEBuffer: { ioSurface=y ; symbolIndex=0 ; "
        "ANEBufferProducerAgent=1 } ) } ) }"
    )
    assert "inputBuffer=nil" in str(ANEChainingRequest(None, []))


def test_preparing_ends_in_code_15_with_three_states_and_crashes_in_memory(program: Program) -> None:
    """Experiment P, row by row."""
    memory, shell = populated(program)
    assert (shell.state.number, memory.state.number) == (1, 3)
    for _ in range(2):
        with pytest.raises(ChainingError) as raised:
            CLIENT.prepare_chaining(shell, request_of())
        assert (raised.value.code, raised.value.system) == (15, CODE_15)
        assert "a MIL-compiled model has no symbols, which come with Espresso IR (model.espresso.net)" in str(
            raised.value
        )
        assert "com.apple.aned.private.allow" in str(raised.value)
        assert raised.value.experiments == ("L", "M", "O", "P")
        if shell.state is ModelState.CREATED:
            with pytest.raises(ChainingError, match=r"Cannot load network 'model_folder/model\.espresso\.net'"):
                CLIENT.load_model(shell)
    assert shell.state.number == 5
    with pytest.raises(ChainingError, match=r"_ANEEspressoIRTranslator") as compiling:
        CLIENT.compile_model(shell)
    assert compiling.value.code == -1
    with pytest.raises(ChainingError) as crashed:
        CLIENT.prepare_chaining(memory, request_of())
    assert crashed.value.system == "-[_ANEInMemoryModel getUUID]: unrecognized selector"
    assert crashed.value.code is None
    memory.unload()


def test_simulation_does_not_help_a_model_without_symbols() -> None:
    with pytest.raises(ChainingError, match="Code=15"):
        CLIENT.prepare_chaining(ANEModel.model_at_url("folder", "0"), request_of(), simulate=True)


def test_the_public_road_stays_closed(model: ANEModel, program: Program) -> None:
    calls: list[Callable[[], object]] = [
        lambda: CLIENT.prepare_chaining(model, request_of()),
        lambda: ANEModel.with_symbol_table([program]),
    ]
    for call in calls:
        with pytest.raises(BackendUnavailableError, match=r"needs the entitlement com\.apple\.aned\.private\.allow"):
            call()


def test_a_shell_has_nothing_to_map(program: Program, model: ANEModel) -> None:
    """Experiments E, N and O; and the mapper of v2."""
    memory, shell = populated(program)
    assert (shell.input_symbol_indices_for_procedure_index(0), shell.output_symbol_indices_for_procedure_index(0)) == (
        (),
        (),
    )
    assert (shell.mapper, shell.model_attributes, shell.procedure_info_for_procedure_index(0)) == (None, {}, None)
    assert model.procedure_info_for_procedure_index(0) == model.symbol_table(0)
    assert shell.get_uuid() == ANEModel.model_at_url("elsewhere", memory.hex_string_identifier).get_uuid()
    assert str(memory.program) == (
        f"_ANEProgramForEvaluation: {{ programHandle={memory.program_handle} intermediateBufferHandle=0 "
        "queueDepth=127 }"
    )
    mapper = ANEProgramIOSurfacesMapper(memory.program_handle)
    asked = ANERequest([ANEIOSurfaceObject(surface("x"))], [0], [ANEIOSurfaceObject(surface("y"))], [0])
    for method in (lambda: mapper.map_io_surfaces(memory, asked), lambda: mapper.validate_request(asked, memory)):
        with pytest.raises(ChainingError) as raised:
            method()
        assert raised.value.system.startswith("-[_ANEInMemoryModel inputSymbolIndicesForProcedureIndex:]")
    assert not mapper.map_io_surfaces(shell, asked)
    assert mapper.map_io_surfaces(model, asked)
    assert repr(mapper).endswith("simulated: input symbol 0: x, simulated: output symbol 0: y>")
    small = ANERequest([ANEIOSurfaceObject(IOSurface(2))], [0], [], [])
    assert not mapper.validate_request(small, model)
    assert not mapper.validate_request(ANERequest([], [], [ANEIOSurfaceObject(surface("y"))], [7]), model)
    many = [ANEIOSurfaceObject(surface("x"))] * 129
    assert not mapper.validate_request(ANERequest(many, list(range(129)), [], []), model)
    memory.unload()


def test_what_the_client_always_answers(model: ANEModel) -> None:
    assert not CLIENT.begin_real_time_task()
    assert not CLIENT.end_real_time_task()
    assert not CLIENT.compiled_model_exists(ANEModel.model_at_url("folder", "0"))
    assert CLIENT.compiled_model_exists(model)
    CLIENT.load_model(model)
    assert model.state is ModelState.LOADED
    assert ANEDeviceController.controller_with_program_handle(1319967543575) is None
    assert ANEModelInstanceParameters() == ANEModelInstanceParameters()
    assert ANEQoSMapper() == ANEQoSMapper()


def test_statistics_are_taken_in_an_array_and_report_nothing(program: Program) -> None:
    stats = ANEPerformanceStats(0)
    memory, _ = populated(program)
    objects = [ANEIOSurfaceObject(surface("x"))], [ANEIOSurfaceObject(surface("y"))]
    memory.perf_stats_mask = 0xFF
    assert memory.evaluate(ANERequest(objects[0], [0], objects[1], [0], perf_stats=[stats]), simulate=True)
    assert (stats.hw_execution_time, stats.performance_counters) == (None, None)
    plain = ANERequest(objects[0], [0], objects[1], [0])
    assert memory.program is not None
    assert memory.program.process_request(plain, memory, simulate=True)
    assert CLIENT.evaluate_with_model(memory, plain, simulate=True)
    other, _ = populated(program)
    with pytest.raises(GraphError, match="processRequest: the program must be the model's own"):
        memory.program.process_request(plain, other, simulate=True)
    other.unload()
    with pytest.raises(ChainingError, match="statType"):
        ANERequest(objects[0], [0], objects[1], [0], perf_stats=stats)  # pyright: ignore[reportArgumentType] - the subject
    with pytest.raises(BackendUnavailableError, match="evaluate: the chaining model reaches no engine"):
        memory.evaluate(ANERequest(objects[0], [0], objects[1], [0]))
    memory.unload()
    with pytest.raises(RuntimeStateError, match=r"evaluate \(simulated\): .* must be loaded \(got unloaded\)"):
        memory.evaluate(ANERequest(objects[0], [0], objects[1], [0]), simulate=True)


def test_a_request_without_a_surface(program: Program) -> None:
    memory, _ = populated(program)
    with pytest.raises(GraphError, match=r"no surface for input symbol 0 \(x\)"):
        memory.evaluate(ANERequest([], [], [], []), simulate=True)
    with pytest.raises(GraphError, match="input_indices must have one index for each surface"):
        ANERequest([RAW], [], [], [])
    with pytest.raises(GraphTypeError, match="weights_buffer must be None"):
        ANERequest([], [], [], [], weights_buffer=1)  # pyright: ignore[reportArgumentType] - the subject of the test
    memory.unload()


@pytest.mark.parametrize(
    ("symbols", "rule"),
    [
        ((0, (0,), None), "CHAIN-SYMBOL-001"),
        (((0, 0), (0, 1), None), "CHAIN-SYMBOL-001"),
        (((0,), None, None), "CHAIN-SYMBOL-002"),
        ((None, None, (-1,)), "CHAIN-SYMBOL-001"),
    ],
)
def test_symbols_of_the_simulation(symbols: tuple[object, object, object], rule: str) -> None:
    answer = request_of(symbols=symbols).validate(simulate=True)
    assert [finding.rule for finding in answer.findings] == [rule]
    assert str(answer).startswith("simulated: validate: NO")


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (request_of([buffer(surface("x"), 3)]), r"there is no input symbol 3; known: 0 \(x\)"),
        (request_of(symbols=((0,), (5,), None)), r"there is no output symbol 5; known: 0 \(y\)"),
        (request_of(symbols=((4,), (0,), None)), "there is no input symbol 4"),
        (request_of(symbols=(None, None, (2,))), "there is no procedure 2; the model has 1, from 0"),
        (
            request_of(signal_events=[ANESharedSignalEvent(1, 9, 0, af.Event("e"))]),
            "there is no output symbol 9",
        ),
    ],
)
def test_a_symbol_that_does_not_exist(model: ANEModel, request_: ANEChainingRequest, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        CLIENT.prepare_chaining(model, request_, simulate=True)


def test_a_surface_that_is_too_small(model: ANEModel) -> None:
    with pytest.raises(GraphError, match=r"'tiny' of 2 bytes> is too small for input 'x'.*\(got 2, limit 64\)"):
        CLIENT.prepare_chaining(model, request_of([buffer(IOSurface(2, "tiny"))]), simulate=True)


def test_records_of_what_is_not_there(model: ANEModel) -> None:
    chain = Link(model, surface("a"), surface("b"), "one").prepare()
    for record, message in (
        (ANEInputBuffersReady(1, [0]), "one has no procedure 1; known: 0"),
        (ANEInputBuffersReady(0, [4]), "one has no input buffer 4; the request has 1, from 0"),
    ):
        with pytest.raises(UnknownNameError, match=message):
            CLIENT.buffers_ready(chain, record)
    with pytest.raises(UnknownNameError, match="one has no output set 2; the request has 1, from 0"):
        CLIENT.enqueue_sets(chain, ANEOutputSetEnqueue(0, 2))
    with pytest.raises(GraphError, match=r"no buffer for input symbol 0 \(x\) of procedure 0"):
        CLIENT.buffers_ready(chain, ANEInputBuffersReady())
    with pytest.raises(GraphError, match="input symbol 0 has two buffers in one record"):
        CLIENT.buffers_ready(chain, ANEInputBuffersReady(0, [0, 0]))


def test_a_loopback_of_another_type() -> None:
    wide = af.build_program(af.concat([af.input((1, 32), name="x")] * 2, 1), "h16s")
    request = ANEChainingRequest([buffer(surface("x"))], [output_set()], (0,), (0,), (0, 1))
    with ANEModel.with_symbol_table([wide, layer(0)], simulate=True) as model:
        chain = CLIENT.prepare_chaining(model, request, simulate=True)
        CLIENT.buffers_ready(chain, ANEInputBuffersReady(0, [0]))
        with pytest.raises(GraphError, match=r"of procedure 0 cannot loop back to input 'x'.* of procedure 1"):
            CLIENT.buffers_ready(chain, ANEInputBuffersReady(1))


EVENT = af.Event("event")


WRONG: list[tuple[Callable[..., object], tuple[object, ...], type[Exception], str]] = [
    (IOSurface, (0,), GraphError, "a surface must have at least one byte"),
    (IOSurface, (1.5,), GraphTypeError, "the size of a surface must be an integer"),
    (IOSurface(4).write, (np.zeros(3, np.float16),), GraphError, "is too small for the values"),
    (IOSurface(4).write, ([0],), GraphTypeError, "values written to a surface must be a NumPy array"),
    (IOSurface(4).read, (np.float16, (3,)), GraphError, "does not hold so many values"),
    (ANEIOSurfaceObject, (None,), GraphTypeError, "the surface of a surface object must be of type IOSurface"),
    (ANEBuffer, (IOSurface(4), 0), GraphTypeError, "the surface object of a buffer must be of type ANEIOSurface"),
    (ANEBuffer, (RAW, "0"), GraphTypeError, "the symbol index of a buffer must be an integer"),
    (ANEBuffer, (RAW, 0, 3), GraphError, "the source of a buffer must be 0, 1 or 2"),
    (ANEIOSurfaceOutputSets, (RAW, []), GraphTypeError, "the stats surface must be of type IOSurface"),
    (ANEIOSurfaceOutputSets, (None, RAW), GraphTypeError, "the buffers of an output set must be a list"),
    (ANESharedSignalEvent, (1, 0, 0, None), GraphTypeError, "return nil without it"),
    (ANESharedSignalEvent, (1 << 64, 0, 0, EVENT), GraphError, "must fit into 64 bits without a sign"),
    (ANESharedSignalEvent, (1, 0, 3, EVENT), GraphError, "the type of a signal event must be 0, 1 or 2"),
    (ANESharedWaitEvent, (1, "e"), GraphTypeError, "the shared event of a wait event must be of type Event"),
    (ANESharedEvents, ([ANESharedWaitEvent(1, EVENT)],), GraphTypeError, r"signal_events\[0\] must be of type"),
    (ANEInputBuffersReady, (0, [0], [1, 2]), GraphError, "input_free_value must have one value for each"),
    (ANEInputBuffersReady, (0, 0), GraphTypeError, "input_buffer_info_index must be a list"),
    (ANEInMemoryModelDescriptor, ("mil",), GraphTypeError, "what a descriptor describes must be of type Program"),
    (ANEModel.model_at_url, ("folder", ""), GraphError, "a model needs a key"),
    (ChainOptions, ("name", [1]), GraphTypeError, r"wait_events\[0\] must be of type"),
    (CLIENT.prepare_chaining, (None, request_of()), GraphTypeError, "the model of a chain must be of type"),
    (CLIENT.buffers_ready, (None, ANEInputBuffersReady()), GraphTypeError, "a prepared chain must be of type"),
]


@pytest.mark.parametrize(("make", "given", "error", "message"), WRONG)
def test_wrong_arguments(
    make: Callable[..., object], given: tuple[object, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make(*given)


@pytest.mark.parametrize(
    ("make", "named", "message"),
    [
        (ANEOutputSetEnqueue, {"is_open_loop": 1}, "is_open_loop must be a boolean"),
        (ANEModel.with_symbol_table, {"programs": [], "simulate": True}, "a model needs a program"),
        (ANEModel.with_symbol_table, {"programs": [1], "simulate": True}, r"programs\[0\] must be of type Program"),
    ],
)
def test_wrong_named_arguments(make: Callable[..., object], named: dict[str, object], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        make(**named)


@pytest.mark.parametrize(
    ("qos", "message"),
    [(64, r"the quality of service must be a known level \(got 64, limit 0 to 63\)"), ("21", "must be an integer")],
)
def test_the_quality_of_service(qos: int, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        CLIENT.prepare_chaining(ANEModel.model_at_url("folder", "0"), request_of(), qos=qos)


def test_records_print_as_objects() -> None:
    assert str(ANEInputBuffersReady(0, [1], [2])) == (
        "_ANEInputBuffersReady: { procedureIndex=0 ; inputBufferInfoIndex=[1] ; inputFreeValue=[2] ; executionDelay=0 }"
    )
    assert str(ANEOutputSetEnqueue(0, 1, 2, is_open_loop=True)) == (
        "_ANEOutputSetEnqueue: { procedureIndex=0 ; setIndex=1 ; signalValue=2 ; signalNotRequired=NO ; "
        "isOpenLoop=YES }"
    )
    assert str(ANESharedEvents([], [ANESharedWaitEvent(1, EVENT)])) == (
        "_ANESharedEvents: { signalEvents=(  ) ; waitEvents=( _ANESharedWaitEvent: { sharedEvent=event ; value=1 } ) }"
    )


def test_two_inputs_have_two_symbols() -> None:
    with ANEModel.with_symbol_table([adding()], simulate=True) as model:
        assert model.input_symbol_indices_for_procedure_index(0) == (0, 1)
        with pytest.raises(UnknownNameError, match="there is no procedure 1"):
            model.symbol_table(1)


def test_one_surface_for_each_symbol_and_one_procedure(program: Program) -> None:
    one = ANEIOSurfaceObject(surface("x"))
    with pytest.raises(GraphError, match="input_indices must be different: a symbol has one surface"):
        ANERequest([one, one], [0, 0], [one], [0])
    with pytest.raises(GraphTypeError, match=r"perf_stats\[0\] must be of type ANEPerformanceStats"):
        ANERequest([one], [0], [one], [0], perf_stats=[1])  # pyright: ignore[reportArgumentType] - the subject
    memory, _ = populated(program)
    with pytest.raises(UnknownNameError, match=r"evaluate \(simulated\): there is no procedure 3; an in-memory"):
        memory.evaluate(ANERequest([one], [0], [one], [0], procedure_index=3), simulate=True)
    memory.unload()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: IOSurface(1 << 47), "there is not enough memory for a surface"),
        (lambda: IOSurface(8).write(np.array([None])), "must be numbers"),
        (lambda: IOSurface(8).read(np.float16, (-1,)), "lengths of a shape must be 0 or more"),
        (lambda: IOSurface(8).read(np.float16, "ab"), r"the shape\[0\] must be of type int"),  # pyright: ignore[reportArgumentType] - the subject
        (lambda: IOSurface(8).read("nothing", (1,)), "must be a NumPy type"),  # pyright: ignore[reportArgumentType] - the subject
    ],
)
def test_wrong_values_of_surfaces(call: Callable[[], object], message: str) -> None:
    with pytest.raises((GraphError, GraphTypeError), match=message):
        call()
