"""`_ANEClient`: the calls of the study with the ends that it saw, and the calls of chaining in the simulation."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NoReturn

from aneforge.runtime.chaining.arguments import check_instance, check_items, check_quality
from aneforge.runtime.chaining.chain_models import (
    DEFAULT_QUALITY,
    ANEInMemoryModel,
    ANEModel,
    ModelState,
    check_simulated,
)
from aneforge.runtime.chaining.chaining_request import ANEChainingRequest
from aneforge.runtime.chaining.chaining_study import ENTITLEMENT, failure, name_as_studied, simulating
from aneforge.runtime.chaining.prepared_chain import ChainOptions, PreparedChain
from aneforge.runtime.chaining.shared_events import ANEInputBuffersReady, ANEOutputSetEnqueue, ANESharedWaitEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.runtime.chaining.chaining_request import ANERequest

__all__ = ["ANEClient"]

NEEDS = (
    "run the simulation: ANEModel.with_symbol_table(programs, simulate=True), then prepare with simulate=True; on the "
    f"engine chaining needs a model with symbols and the entitlement {ENTITLEMENT} (conflict T15)"
)
PREPARED = "prepare_chaining(..., simulate=True) returns one"


@name_as_studied("_ANEClient")
class ANEClient:
    """`_ANEClient`: the connection to the daemon. Nothing here connects: calls end as they did in the study.

    >>> model = ANEModel.model_at_url("model_folder", key="0123abcd")
    >>> client = ANEClient.shared_connection()
    >>> client.compiled_model_exists(model), client.begin_real_time_task()
    (False, False)
    """

    @staticmethod
    @cache
    def shared_connection() -> ANEClient:
        """Return the one client.

        >>> ANEClient.shared_connection() is ANEClient.shared_connection()
        True
        """
        return ANEClient()

    def begin_real_time_task(self) -> bool:
        """Return NO, as each time; real-time evaluation still works (v2)."""
        return False

    def end_real_time_task(self) -> bool:
        """Return NO, as each time (v2)."""
        return False

    def evaluate_with_model(
        self, model: ANEInMemoryModel, request: ANERequest, qos: int = DEFAULT_QUALITY, *, simulate: bool = False
    ) -> bool:
        """Evaluate once through the client (v2, attempt 6).

        Also `doEvaluateDirectWithModel:` (attempt 7) and `evaluateRealTimeWithModel:` answer YES: the bits are the same
        by every route, and what they take is in `af.routes()`.

        Raises:
            GraphTypeError: It is not an in-memory model, or not a request.
            GraphError: The quality of service is not a known level, or a surface is too small or missing.
            UnknownNameError: There is no such input or output.
            RuntimeStateError: The model is not loaded.
            BackendUnavailableError: It was not asked to simulate.
        """
        return check_instance(model, ANEInMemoryModel, "the model").evaluate(request, qos, simulate=simulate)

    def compiled_model_exists(self, model: ANEModel) -> bool:
        """Return NO for every model that was compiled from MIL (experiment M).

        Raises:
            GraphTypeError: It is not a model.
        """
        return check_instance(model, ANEModel, "a model").simulated

    def load_model(self, model: ANEModel, qos: int = DEFAULT_QUALITY) -> None:
        """Load a model: one without Espresso IR fails, and is in state 5 afterwards (experiment M).

        Raises:
            ChainingError: The model is not simulated: there is no model.espresso.net.
            GraphTypeError: It is not a model.
            GraphError: The quality of service is not a known level.
        """
        self._bring_up(model, "loadModel", qos)

    def compile_model(self, model: ANEModel, qos: int = DEFAULT_QUALITY) -> None:
        """Compile a model: one without Espresso IR fails, and is in state 5 afterwards (experiment M).

        Raises:
            ChainingError: The model is not simulated: there is no model.espresso.net.
            GraphTypeError: It is not a model.
            GraphError: The quality of service is not a known level.
        """
        self._bring_up(model, "compileModel", qos)

    def prepare_chaining(
        self,
        model: ANEModel | ANEInMemoryModel,
        request: ANEChainingRequest,
        options: ChainOptions | None = None,
        qos: int = DEFAULT_QUALITY,
        *,
        simulate: bool = False,
    ) -> PreparedChain:
        """Prepare a chain. It ends as in the study, unless a model with a symbol table is simulated.

        `doPrepareChainingWithModel:` has the same signature and the same ends (experiment H).

        Raises:
            ChainingError: The request does not validate; the model is in memory (`getUUID`); or its symbol table is
                empty (Code 15).
            GraphTypeError: Model, request, options or quality of service are of another type.
            GraphError: The quality of service is not a known level, or a surface is too small for its symbol.
            UnknownNameError: A symbol or a procedure does not exist.
            RuntimeStateError: The model was released.
            BackendUnavailableError: The model has symbols, and it was not asked to simulate.
        """
        if not isinstance(model, ANEInMemoryModel):
            check_instance(model, ANEModel, "the model of a chain")
        check_instance(request, ANEChainingRequest, "a chaining request")
        chosen = ChainOptions() if options is None else check_instance(options, ChainOptions, "the options of a chain")
        check_quality(qos)
        validation = request.validate(simulate=simulate)
        if not validation:
            raise validation.error("prepareChainingWithModel")
        if isinstance(model, ANEInMemoryModel):
            raise failure("no_uuid", "prepareChainingWithModel", remedy=NEEDS)
        if not model.simulated:
            raise failure("code_15", "prepareChainingWithModel", remedy=NEEDS)
        check_simulated("prepareChainingWithModel", simulate=simulate)
        with simulating("prepareChainingWithModel"):
            model.check_usable("prepareChainingWithModel")
            return PreparedChain(model, request, chosen)

    def buffers_ready(
        self,
        chain: PreparedChain,
        record: ANEInputBuffersReady,
        wait_events: Sequence[ANESharedWaitEvent] = (),
    ) -> None:
        """Say that inputs are ready: ask a chain for one execution, which waits for events first.

        Raises:
            GraphTypeError: Chain, record or waits are of another type.
            GraphError: An input has no buffer, two, or one that is too small; or a loopback has another type.
            UnknownNameError: There is no such procedure, or no buffer at one of the places.
            RuntimeStateError: The chain or its model was released, or the queue of the program is full.
        """
        with simulating("buffersReadyWithModel"):
            check_instance(chain, PreparedChain, "a prepared chain", PREPARED)
            check_instance(record, ANEInputBuffersReady, "a record of ready inputs")
            chain.ask(record, check_items(wait_events, ANESharedWaitEvent, "wait_events"))

    def enqueue_sets(self, chain: PreparedChain, record: ANEOutputSetEnqueue) -> None:
        """Enqueue an output set, which an execution of a chain may write.

        Raises:
            GraphTypeError: Chain or record are of another type.
            GraphError: A surface is too small.
            UnknownNameError: There is no such procedure or set, or the procedure has no such output.
            RuntimeStateError: The chain or its model was released, the queue is full, or an open loop has a set.
        """
        with simulating("enqueueSetsWithModel"):
            check_instance(chain, PreparedChain, "a prepared chain", PREPARED)
            chain.offer(check_instance(record, ANEOutputSetEnqueue, "a record of an output set"))

    def _bring_up(self, model: ANEModel, action: str, qos: int) -> None:
        check_instance(model, ANEModel, "a model")
        check_quality(qos)
        if not model.simulated:
            self._fail(model, action)
        model.check_usable(action)
        model.state = ModelState.LOADED

    def _fail(self, model: ANEModel, action: str) -> NoReturn:
        model.state = ModelState.FAILED
        raise failure("no_espresso", action, url=model.url)
