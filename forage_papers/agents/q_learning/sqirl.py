"""SQIRL: act at random, look a few steps ahead by regression, decide; one time step of the episode after the other.

Laidlaw, Zhu, Russell, Dragan (2023), "The Effective Horizon Explains Deep RL Performance in Stochastic Environments",
arXiv 2312.08369, algorithm 1, shallow Q-iteration via reinforcement learning. For i = 0, 1, ... T - 1:

1. collect episodes that take the actions decided on before time i, and uniform ones from i on;
2. regress Q on the returns that followed the actions at time i + k - 1, that is, on the random policy's values;
3. for t = i + k - 2, ... i, regress Q on r_t + discount max_a Q(s_{t+1}, a), from the actions at time t;
4. decide: at time i of an episode, the action of highest Q.

Exploration is random throughout, and only k - 1 steps are planned: what this solves has a short effective horizon.
`forage_papers.studies.horizon` measures it, and `environments/tabular/horizon.py` works it out for arrays.

Any regression will do; here it is a network of its own for each time step, trained from a fresh start on the newest
rollout. The authors' deep version has one network for all times, which it never starts afresh, and learns from all that
was collected.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core.ports import ActInputs, Agent, Metrics
from forage.core.ports.needs import Needs
from forage.core.spaces import split_mask
from forage.core.types import Batch, Clock, Experience, Spec
from forage.nn.distributions import Actions
from forage.nn.networks import MLP, Torso
from forage.ops.action_values import best_action, take_values
from forage.ops.optimiser import adam
from forage.ops.rows import merge_time


class Values(equinox.Module):
    """Values of all actions at one time of the episode."""

    torso: Torso
    head: MLP

    def __init__(self, key: Key[Array, ""], spec: Spec, agent: SQIRL):
        torso_key, head_key = jax.random.split(key)
        self.torso = Torso(torso_key, spec.observation_space, agent.hidden_sizes, agent.activation, 2**0.5)
        sizes = (self.torso.size, Actions.from_space(spec.action_space).outputs)
        self.head = MLP(head_key, sizes, agent.activation, last_gain=0.01)

    def __call__(self, observation: PyTree[Array]) -> Float[Array, " actions"]:
        return self.head(self.torso(observation))


class Place(NamedTuple):
    """The memory within an episode, noted of each transition."""

    time: Int[Array, ""]  # steps since the episode began
    stage: Int[Array, ""]  # i when it began; -1 before


class SQIRLState(NamedTuple):
    decided: Values  # leaves [time, ...]: the values whose best actions are taken
    fresh: Values  # where every regression starts
    stage: Int[Array, ""]  # i: how many of the times are decided


class SQIRL(Agent):
    """Shallow Q-iteration (Laidlaw et al., 2023, arXiv 2312.08369).

    Each rollout decides one time step, so a run of T rollouts, `num_envs * rollout_length * T` environment steps, is
    all that it can use; later ones change nothing. A rollout is long enough for a whole episode in each environment;
    one that began before the last decision does not count. Where more than one is whole in an environment, all count,
    or with `first_only` the first alone, so that m of the paper is `num_envs`. In evaluation, too, times that are not
    decided are random.
    """

    example: ClassVar[str] = "forage train sqirl tabular:GridWorld-3x4 --steps 1280k"

    on_policy: ClassVar[bool] = True
    acting: ClassVar[str] = "decided"
    needs: ClassVar[Needs] = Needs(actions="numbered", observations="any", horizon=True, whole_episodes=2)

    learning_rate: float = 3e-3
    discount: float = 1.0
    planning_depth: int = equinox.field(static=True, default=1)  # steps of values k that are planned with; 1 is greedy
    # on the random policy's values
    num_envs: int = equinox.field(static=True, default=64)
    rollout_length: int = equinox.field(static=True, default=200)  # at least twice the longest episode
    first_only: bool = equinox.field(static=True, default=False)  # only the first episode of each environment counts
    regression_steps: int = equinox.field(static=True, default=300)  # gradient steps of each regression; more fit it
    # more closely, at more computing
    minibatch_size: int = equinox.field(static=True, default=128)
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(64,))
    activation: str = equinox.field(static=True, default="relu")

    def init(self, key: Key[Array, ""], spec: Spec) -> SQIRLState:
        assert spec.horizon is not None
        fresh = Values(key, spec, self)
        decided = jax.tree.map(lambda x: jnp.broadcast_to(x, (spec.horizon, *x.shape)), fresh)
        return SQIRLState(decided, fresh, jnp.int32(0))

    def init_hidden(self, spec: Spec) -> Place:
        return Place(jnp.int32(0), jnp.int32(-1))

    def act(self, state: SQIRLState, inputs: ActInputs) -> tuple[PyTree[Array], Place, PyTree[Array]]:
        hidden, mask = inputs.hidden, split_mask(inputs.observation)[1]
        q = self.action_values(state, hidden, inputs.observation)
        logits = jnp.zeros_like(q) if mask is None else jnp.where(mask, 0.0, -jnp.inf)
        uniform = jax.random.categorical(inputs.key, logits)
        action = jnp.where(hidden.time < state.stage, best_action(q, mask), uniform).astype(jnp.int32)
        now = Place(hidden.time, jnp.where(hidden.time == 0, state.stage, hidden.stage))
        return action, Place(hidden.time + 1, now.stage), now

    def action_values(self, state: SQIRLState, hidden: Place, observation: PyTree[Array]) -> Float[Array, " actions"]:
        """Those of this time of the episode."""
        return jax.tree.map(lambda x: x[hidden.time], state.decided)(observation)

    def learn(
        self, state: SQIRLState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[SQIRLState, Metrics, Float[Array, " batch"]]:
        experience, times = batch.experience, jax.tree.leaves(state.decided)[0].shape[0]
        returns, whole = returns_to_go(experience.reward, experience.ended, self.discount)
        # Of episodes that began later only those would be over by now that happened to be short.
        begun = jnp.arange(self.rollout_length)[:, None] - experience.policy_info.time
        usable = whole & (begun <= self.rollout_length - times) & (experience.policy_info.stage == state.stage)
        usable &= experience.counts
        if self.first_only:
            usable &= begun == jnp.argmax(usable & (experience.policy_info.time == 0), 0)
        flat = merge_time((experience, returns, usable))

        def fit_step(later: Values, step: tuple[Int[Array, ""], Key[Array, ""]]) -> tuple[Values, Array]:
            ahead, key = step
            fitted, loss = self.regress(state.fresh, later, flat, state.stage + ahead, ahead + 1, key)
            return fitted, loss

        depths = jnp.arange(self.planning_depth)[::-1]
        network, losses = jax.lax.scan(fit_step, state.fresh, (depths, jax.random.split(key, self.planning_depth)))
        now = jnp.minimum(state.stage, times - 1)
        fill = lambda decided, new: decided.at[now].set(jnp.where(state.stage < times, new, decided[now]))  # noqa: E731
        decided = jax.tree.map(fill, state.decided, network)
        stage = jnp.minimum(state.stage + 1, times)
        metrics = {
            "loss": losses[-1],
            "stage": stage.astype(jnp.float32),
            "usable_episodes": usable_starts(usable, experience),
        }
        return SQIRLState(decided, state.fresh, stage), metrics, jnp.zeros(batch.weight.shape)

    def regress(
        self,
        fresh: Values,
        later: Values,
        rows: tuple[Experience, Float[Array, " row"], Bool[Array, " row"]],
        time: Int[Array, ""],
        ahead: Int[Array, ""],
        key: Key[Array, ""],
    ) -> tuple[Values, Float[Array, ""]]:
        """Fit the values at one time, `ahead` actions into the plan: random next actions at the last of k, else the
        best.

        `rows`: what was experienced, the returns that followed, and whether they may be learned from.
        """
        experience, returns, usable = rows
        taken = usable & (experience.policy_info.time == time)
        order, count = jnp.argsort(~taken), taken.sum()  # those of this time come first
        optimiser = adam(self.learning_rate)

        def loss(network: Values, index: Int[Array, " minibatch"]) -> Array:
            some = jax.tree.map(lambda x: x[index], experience)
            value = jax.vmap(later)(some.next_observation)
            mask = split_mask(some.next_observation)[1]
            hoped = take_values(value, best_action(value, mask))
            planned = some.reward + self.discount * jnp.where(some.ended, 0.0, hoped)
            target = jnp.where(ahead == self.planning_depth, returns[index], planned)
            error = take_values(jax.vmap(network)(some.observation), some.action) - jax.lax.stop_gradient(target)
            return jnp.where(count > 0, jnp.mean(error**2), 0.0)

        def update(carry: tuple[Values, Any], key: Key[Array, ""]) -> tuple[tuple[Values, Any], Array]:
            network, optimiser_state = carry
            index = order[jax.random.randint(key, (self.minibatch_size,), 0, jnp.maximum(count, 1))]
            value, gradient = jax.value_and_grad(loss)(network, index)
            return optimiser.step(gradient, optimiser_state, network), value

        keys = jax.random.split(key, self.regression_steps)
        (network, _), losses = jax.lax.scan(update, (fresh, optimiser.init(fresh)), keys)
        return network, losses[-1]


def returns_to_go(
    reward: Float[Array, "time env"], ended: Bool[Array, "time env"], discount: float | Array
) -> tuple[Float[Array, "time env"], Bool[Array, "time env"]]:
    """Return the discounted rewards from each step to its episode's end, and whether the rollout contains that end."""

    def add_reward(carry: tuple[Array, Array], step: tuple[Array, Array]):
        total, whole = carry
        reward, ended = step
        total, whole = reward + discount * jnp.where(ended, 0.0, total), ended | whole
        return (total, whole), (total, whole)

    start = jnp.zeros(reward.shape[1:]), jnp.zeros(ended.shape[1:], bool)
    return jax.lax.scan(add_reward, start, (reward, ended), reverse=True)[1]


def usable_starts(usable: Bool[Array, "time env"], experience: Experience) -> Float[Array, ""]:
    """Return the number of whole episodes to learn from."""
    return (usable & (experience.policy_info.time == 0)).sum().astype(jnp.float32)
