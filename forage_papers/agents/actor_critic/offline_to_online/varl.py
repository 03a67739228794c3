"""An advisor suggests better actions for some of the latest ones, and at first the policy is drawn towards them.

Wu, Zhao, Zhang, Hu (2025), "Teaching RL Agents to Act Better: VLM as Action Advisor for Online Reinforcement Learning",
arXiv 2509.21126 (VARL). An advisor, there a vision-language model, maps a state and the action taken in it to an action
that it thinks better. It is asked seldom: every `advice_interval` steps, about a batch drawn from the most recent
transitions, as each answer is slow and dear. Its answers are kept, and while fewer than `cutoff` steps were taken
(their N_s) a policy-shaping term stands beside the policy's loss,

    actor loss of SAC  +  shaping_weight mean |mode pi(.|s) - advice(s)|^2    over pairs (s, advice(s)) that were kept,

in the unit box. So the policy tries other actions, and the data become more diverse; rewards and critics' targets are
what they were, and after the cutoff this is SAC, whose optimum the advice cannot move. Advice is never executed by
itself.

The paper's text could not be looked up, nor any program of it: this follows summaries of it, which agree on the two
parts, on asking about recent transitions at intervals, on cloning, and on the cutoff. They name a gating function,
which is taken to be that cutoff. How far the policy is drawn (a squared distance of its mode rather than a
log-likelihood, which is without bound at the edges of the box), how many pairs are kept, and all numbers are choices
made here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from jaxtyping import Array, Float, Int, Key, PyTree, UInt32

from forage.agents.actor_critic.base import UpdateInputs
from forage.agents.actor_critic.sac import SAC, ActorReport, GaussianActor, SACState
from forage.core import prng, spaces
from forage.core.frozen import FrozenPolicy, make_frozen
from forage.core.ports import Metrics, State
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage.nn.normalise import apply_norm
from forage.ops.every import run_if, shared_by_seeds
from forage.ops.rows import merge_time


class Pairs(NamedTuple):
    """Observations and actions, leaves `row ...`: the newest ones, in the order of writing."""

    observation: PyTree[Array]
    action: Float[Array, "row dimensions"]  # in the unit box


class VARLState(SACState):
    advisor: PyTree[Array]  # its weights
    recent: Pairs  # what was done in the newest transitions
    advice: Pairs  # what the advisor said instead
    seen: Int[Array, ""]  # transitions so far
    given: Int[Array, ""]  # pieces of advice so far
    draws: UInt32[Array, " words"]  # the key of what is drawn beside SAC's numbers


class VARL(SAC):
    """SAC with a policy that is drawn towards an advisor's actions at first (Wu et al., 2025, arXiv 2509.21126).

    In Python the advisor is also a function `(observation, action) -> action`, of JAX, or with `on_host` of NumPy, such
    as the client of a language model.
    """

    example: ClassVar[str] = "forage train varl Pendulum-v1 --advisor runs/clone --steps 20k"
    own_choices: ClassVar[str] = "the advice's loss, the number of pairs kept, and all other numbers"
    ranges: ClassVar[Ranges] = {
        "advice_interval": Range(1),
        "advice_rows": Range(1),
        "advice_capacity": Range(1),
        "recent": Range(1),
        "cutoff": Range(0),
        "shaping_weight": Range(0),
    }
    reset_keeps: ClassVar[tuple[str, ...]] = (
        *SAC.reset_keeps,
        *("advisor", "recent", "advice", "seen", "given", "draws"),
    )

    advisor: str | FrozenPolicy | Callable[[Any, Any], Any] | None = equinox.field(
        default=None, converter=make_frozen
    )  # who
    # suggests actions: a run's directory; in Python also a function of observation and action, or a trained agent with
    # its state
    on_host: bool = equinox.field(static=True, default=False)  # the function is one of NumPy, called for one
    # observation at a time while the program waits
    advice_interval: int = equinox.field(static=True, default=250)  # steps between two times that the advisor is asked;
    # more ask less
    advice_rows: int = equinox.field(static=True, default=16)  # recent transitions that it is asked about each time
    advice_capacity: int = equinox.field(static=True, default=1024)  # newest pieces of advice that are kept
    recent: int = equinox.field(static=True, default=256)  # newest transitions that those asked about are drawn from
    cutoff: int = 10_000  # steps after which nobody is asked any more and the policy is SAC's alone
    shaping_weight: float = 1.0  # weight of the squared distance to the advice in the policy's loss, in units of
    # values; larger follows it more closely

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if not isinstance(self.advisor, FrozenPolicy):
            raise ForageError(
                "VARL listens to an advisor; name the run of one with --advisor RUN, or give a function of observation "
                "and action in Python, or use sac."
            )
        if self.on_host and self.advisor.function is None:
            raise ForageError("A function alone is asked on the host, and the advisor of VARL is a run; leave on_host.")
        if self.advice_rows > self.advice_capacity:
            raise ForageError(
                f"VARL asks about {self.advice_rows} transitions at a time and keeps {self.advice_capacity} pieces of "
                f"advice; give advice_capacity={self.advice_rows} or more."
            )
        rows = self.num_envs * spec.num_agents * self.rollout_length
        if rows > self.recent:
            raise ForageError(
                f"A rollout has {rows} transitions, and VARL keeps the {self.recent} newest; give recent={rows}."
            )
        if self.advisor.function is None:
            self.advisor.check("VARL", spec, "advisor")
        elif not self.on_host:
            wanted, seen = spaces.example(spec.action_space), spaces.example(spec.observation_space)
            try:
                given = jax.eval_shape(self.advisor.function, seen, wanted)
            except TypeError as error:
                raise ForageError(
                    f"The advisor of VARL is called with an observation and an action, and takes others: {error}."
                ) from error
            if jax.tree.map(jnp.shape, given) != jax.tree.map(jnp.shape, wanted):
                raise ForageError(
                    f"The advisor of VARL does not return {spaces.describe_space(spec.action_space)}, which "
                    f"{spec.name} "
                    f"takes."
                )

    @property
    def advisor_policy(self) -> FrozenPolicy:
        """Return the advisor."""
        assert isinstance(self.advisor, FrozenPolicy)
        return self.advisor

    def init(self, key: Key[Array, ""], spec: Spec) -> VARLState:
        plain = super().init(key, spec)
        dimensions, seen = plain.actor.actions.outputs, spaces.example(spec.observation_space)

        def pairs(rows: int) -> Pairs:
            empty = jax.tree.map(lambda x: jnp.zeros((rows, *jnp.shape(x)), jnp.asarray(x).dtype), seen)
            return Pairs(empty, jnp.zeros((rows, dimensions)))

        draws = jax.random.key_data(jax.random.fold_in(key, 1))
        stores = {"recent": pairs(self.recent), "advice": pairs(self.advice_capacity)}
        counts = {"seen": jnp.int32(0), "given": jnp.int32(0)}
        return VARLState.extend(plain, advisor=self.advisor_policy.first(spec), **stores, **counts, draws=draws)

    def suggest_action(self, state: State, observation: PyTree[Array], action: PyTree[Array]) -> PyTree[Array]:
        """Return the advisor's suggestion in place of one action, in the action's own units."""
        ask: Any = self.advisor_policy.function
        if ask is None:
            return self.advisor_policy.act(state.advisor, observation)
        if not self.on_host:
            return jnp.asarray(ask(observation, action))
        shape = jax.ShapeDtypeStruct(action.shape, action.dtype)

        def call_advisor(observation: Any, action: Any) -> np.ndarray:
            told = jax.tree.map(np.asarray, (observation, action))
            return np.asarray(ask(*told), shape.dtype).reshape(shape.shape)

        return io_callback(call_advisor, shape, observation, action)

    def observe(self, state: State, rollout: Experience) -> State:
        """Return the state with a new rollout and, if it is time, with advice about recent transitions."""
        state = super().observe(state, rollout)
        rows = merge_time((rollout.observation, rollout.action))
        done = Pairs(rows[0], jax.vmap(state.actor.actions.action_features)(rows[1]))
        number = len(done.action)
        state = state._replace(recent=write_pairs(state.recent, done, state.seen), seen=state.seen + number)
        turned = state.seen // self.advice_interval > (state.seen - number) // self.advice_interval
        due = turned & (state.seen < self.cutoff)
        return run_if(shared_by_seeds(due.astype(jnp.int32)), self.ask_advice, state)

    def ask_advice(self, state: State) -> State:
        """Return the state with advice about some of the recent transitions."""
        # By `given`, which a turn changes: else XLA would ask before it knows whether it is time, and so at every step.
        key = jax.random.fold_in(prng.from_data(state.draws), state.given)
        rows = jax.random.randint(key, (self.advice_rows,), 0, jnp.minimum(state.seen, self.recent))
        seen, done = jax.tree.map(lambda x: x[rows], state.recent)
        actions = state.actor.actions
        advised = jax.vmap(lambda seen, done: self.suggest_action(state, seen, actions.to_box(done)))(seen, done)
        advised = jax.vmap(actions.action_features)(advised)
        advice = write_pairs(state.advice, Pairs(seen, advised), state.given)
        return state._replace(advice=advice, given=state.given + self.advice_rows)

    def learn(
        self, state: State, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, Metrics, Float[Array, " batch"]]:
        state = state._replace(draws=jax.random.key_data(jax.random.fold_in(key, 3)))
        state, metrics, errors = super().learn(state, batch, clock, key)
        told = {"advice": state.given.astype(jnp.float32), "advice_distance": self.distance(state.actor, state)}
        return state, metrics | told, errors

    def distance(self, actor: GaussianActor, state: State) -> Float[Array, ""]:
        """Compute the mean squared distance of the policy's mode to a batch of advice; 0 without advice."""
        most = jnp.minimum(state.given, self.advice_capacity)
        rows = jax.random.randint(prng.from_data(state.draws), (self.batch_size,), 0, jnp.maximum(most, 1))
        seen, advised = jax.tree.map(lambda x: x[rows], state.advice)
        mode = actor(jax.vmap(lambda o: apply_norm(state.norm, o))(seen)).mode()
        return jnp.where(most > 0, jnp.mean((mode - advised) ** 2), 0.0)

    def actor_loss(
        self, actor: GaussianActor, state: State, inputs: UpdateInputs
    ) -> tuple[Float[Array, ""], ActorReport]:
        """Compute SAC's loss of the policy, before the cutoff with the distance to the advice."""
        loss, told = super().actor_loss(actor, state, inputs)
        weight = jnp.where(state.seen < self.cutoff, self.shaping_weight, 0.0)
        return loss + weight * self.distance(actor, state), told


def write_pairs(pairs: Pairs, new: Pairs, count: Int[Array, ""]) -> Pairs:
    """Return the pairs with new ones after the `count` that were written before, over the oldest."""
    rows = len(new.action)
    room = len(pairs.action)
    where = (count + jnp.arange(rows)) % room
    return jax.tree.map(lambda old, new: old.at[where].set(new.astype(old.dtype)), pairs, new)
