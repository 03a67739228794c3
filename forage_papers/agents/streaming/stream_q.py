"""Stream Q(lambda): Q-learning with eligibility traces, from each transition once.

Elsayed, Vasan, Mahmood (2024), "Streaming Deep Reinforcement Learning Finally Works", arXiv 2410.14606, on what
`streaming/base.py` describes. After each step, with

    delta = r + discount (1 - terminated) max_b Q(s', b) - Q(s, a)
    z     = discount trace_lambda z + grad Q(s, a),    w <- w + step delta z

the trace z ends where the episode does, and where the action was not the greedy one (Watkins, 1989, "Learning from
Delayed Rewards"): what came of it is not to the credit of those before. As in the authors' stream_q.py it ends after
the update of such a step; Watkins lets it end before. For tasks without pictures their layers have 32 units, here 128,
and epsilon falls to 0.01 in the first twentieth of the run, here as `epsilon-greedy` has it.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.core.ports import ActInputs, Metrics
from forage.core.ports.needs import Needs
from forage.core.spaces import split_mask
from forage.core.types import Batch, Clock, Spec
from forage.nn.distributions import Actions
from forage.nn.normalise import apply_norm
from forage.ops.action_values import best_action, take_values
from forage_papers.agents.streaming.base import Statistics, Stream, StreamNetwork, apply_updates, empty_trace


class StreamQState(NamedTuple):
    network: StreamNetwork
    trace: Any
    statistics: Statistics


class StreamQ(Stream):
    """Stream Q(lambda), Q-learning without replay (Elsayed, Vasan, Mahmood, 2024, arXiv 2410.14606)."""

    example: ClassVar[str] = "forage train stream-q CartPole-v1 --steps 100k"

    usual_behaviour: ClassVar[str] = "epsilon-greedy"
    needs: ClassVar[Needs] = Needs(actions="numbered")

    def init(self, key: Key[Array, ""], spec: Spec) -> StreamQState:
        network = self.make_network(key, spec, Actions.from_space(spec.action_space).outputs)
        return StreamQState(network, self.descent(self.kappa).init(network), self.statistics(spec))

    def act(self, state: StreamQState, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        q = self.action_values(state, inputs.hidden, inputs.observation)
        return best_action(q, split_mask(inputs.observation)[1]), inputs.hidden, ()

    def action_values(
        self, state: StreamQState, hidden: PyTree[Array], observation: PyTree[Array]
    ) -> Float[Array, " actions"]:
        """Return values of rewards as they are scaled now."""
        return state.network(apply_norm(state.statistics.norm, observation))

    def probabilities(self, state: StreamQState, observation: PyTree[Array], explore: bool) -> Float[Array, " actions"]:
        q = self.action_values(state, (), observation)
        return jax.nn.one_hot(best_action(q, split_mask(observation)[1]), q.shape[-1])

    def learn(
        self, state: StreamQState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[StreamQState, Metrics, Float[Array, " env"]]:
        seen, statistics = self.transition(state.statistics, batch)
        action = seen.raw.action

        def value(network: StreamNetwork) -> tuple[Float[Array, ""], Float[Array, " actions"]]:
            q = network(seen.observation)
            return take_values(q, action), q

        (taken, q), gradient = jax.value_and_grad(value, has_aux=True)(state.network)
        following = state.network(seen.next_observation)
        next_value = take_values(following, best_action(following, split_mask(seen.next_observation)[1]))
        error = self.error(seen, taken, next_value)
        greedy = action == best_action(q, split_mask(seen.observation)[1])
        updates, trace = self.descent(self.kappa).update(
            gradient, state.trace, error=error, cut=seen.raw.ended | ~greedy
        )
        metrics: Metrics = {"q": taken, "error": jnp.abs(error), "step": trace.step}
        return StreamQState(apply_updates(state.network, updates), trace, statistics), metrics, jnp.abs(error)[None]

    def truncate(self, state: StreamQState) -> StreamQState:
        return state._replace(trace=empty_trace(state.trace), statistics=self.forget(state.statistics))
