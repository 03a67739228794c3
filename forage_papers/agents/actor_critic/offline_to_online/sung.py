"""From offline to online by uncertainty: explore uncertain, promising actions, and be careful with uncertain states.

Guo, Sun, Hu, Huang, Chen, Piao, Sun, Chang (2023), "A Simple Unified Uncertainty-Guided Framework for
Offline-to-Online Reinforcement Learning", arXiv 2306.07541 (SUNG), on TD3+BC and on CQL. A variational autoencoder of
state and action (`nn/vae.py`) learns beside the agent, from the same batches; its loss of a pair is the uncertainty
U(s, a). Offline the agent is TD3+BC or CQL; online

    acting    n candidates, of which the k best by one measure stay; of these one is drawn with the softmax of the
              other. TD3+BC: pi(s) + noise, best by Q_1, drawn by U. CQL: a ~ pi(.|s), best by U, drawn by min_i Q_i
    TD3+BC    policy: -lambda mean Q_1(s, pi(s)) + caution mean_{s in top} |pi(s) - a|^2, lambda = alpha / mean |Q_1|,
              top being the share of the batch with the largest U(s, pi(s)), the squares a mean over the action's
              numbers
    CQL       critics: sum_i mean (Q_i - y)^2 + caution conservatism G_i, the gap G_i of CQL over a share of the batch,
              drawn with the softmax of U(s, a)

Batches are from a small buffer of the newest steps and from the data: `--memory mixed` with a share of 0.1 and a
capacity of 20,000. All of this and the numbers are those of the authors' program (guosyjlu/SUNG: TD3_BC/TD3.py and
main.py, CQL/conservative_sac.py and main.py, vae.py, train_vae.py, utils.py). The paper's tables could not be looked
up. Differences: their autoencoder is taught 100,000 batches of the data before, and here it learns beside the offline
agent; their share of 0.1 is from the data and all steps since, here from the data; theirs begins with fresh optimisers
and targets equal to the networks, here those of the offline run go on.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree, UInt32

from forage.agents.actor_critic import td3
from forage.agents.actor_critic.base import ActorCritic, UpdateInputs
from forage.agents.actor_critic.offline.cql import CQL, CQLState, SampledActions
from forage.agents.actor_critic.offline.td3_bc import LEAST_DEVIATION, TD3BC
from forage.core import prng
from forage.core.ports import ActInputs, Metrics, State
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.spaces import observation_part
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage.nn.critics import ActionValue, CriticReport
from forage.nn.normalise import RunningNorm, apply_norm
from forage.ops.optimiser import Optimiser, adam
from forage.ops.rows import observation_rows, weighted_mean
from forage_papers.nn.vae import Autoencoder


class Density(NamedTuple):
    """A measure of the uncertainty of a state and an action: their distance from earlier experience."""

    autoencoder: Autoencoder
    optimiser: Any
    states: RunningNorm  # of the data's observations, as networks read them

    def uncertainty(
        self,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        key: Key[Array, ""],
        autoencoder: Autoencoder | None = None,
    ) -> Float[Array, " batch"]:
        """Compute U(s, a); `action` in the unit box, `autoencoder` in place of its own."""
        inputs = jnp.concatenate([self.states(observation_rows(observation)), action], axis=-1)
        return (autoencoder or self.autoencoder).error(inputs, key)


class SUNGState(td3.TD3State):
    density: Density
    draws: UInt32[Array, " words"]  # bits of the key that the codes of an update are drawn with


class SUNGCQLState(CQLState):
    density: Density
    draws: UInt32[Array, " words"]  # as above


class GuidedExploration(ActorCritic):
    """Density and guidance that both agents share. Goes before the offline agent among the bases of a class.

    A class with it says again which of the kit's fields have other defaults in the offline agent than there.
    """

    begins_at_random: ClassVar[bool] = False
    offline: ClassVar[bool] = True
    reset_keeps: ClassVar[tuple[str, ...]] = (*ActorCritic.reset_keeps, "density", "draws")
    ranges: ClassVar[Ranges] = {
        "candidates": Range(1),
        "kept": Range(1),
        "caution": Range(0),
        "uncertain_share": Range(0, 1, above=True),
        "density_learning_rate": Range(0, above=True),
        "density_hidden": Range(1),
    }
    needs: ClassVar[Needs] = Needs(observations="vector", instead="cql and rlpd learn there")

    online: bool = equinox.field(static=True, default=False)  # it goes on online, from what it has learned with
    # --data, by uncertainty; else it is the offline agent, beside which the autoencoder learns
    candidates: int = equinox.field(static=True, default=100)  # actions that are considered where it explores; more
    # find more extreme ones; the authors'
    density_learning_rate: float = 1e-3  # step size of Adam for the autoencoder; the authors'
    density_hidden: int = equinox.field(static=True, default=750)  # units of each hidden layer of the autoencoder; the
    # authors'

    fine_tunes = property(lambda self: self.online)  # type: ignore[assignment]

    def __check_init__(self):
        some: Any = self
        if some.kept > self.candidates:
            raise ForageError(
                f"{type(self).__name__} keeps {some.kept} of {self.candidates} candidates; keep fewer, or have more."
            )

    def init_guidance(self, key: Key[Array, ""], spec: Spec, dimensions: int) -> dict[str, Any]:
        """Return the state's own fields, in addition to the offline agent's; `dimensions`: numbers of an action."""
        body_key, draws = jax.random.split(jax.random.fold_in(key, 1))
        size = math.prod(observation_part(spec.observation_space).shape or ())
        autoencoder = Autoencoder(body_key, size + dimensions, 2 * dimensions, self.density_hidden)
        density = Density(autoencoder, self.density_descent().init(autoencoder), RunningNorm.from_shape((size,)))
        return {"density": density, "draws": jax.random.key_data(draws)}

    def density_descent(self) -> Optimiser:
        return adam(self.density_learning_rate)

    @property
    def needs_whole_dataset(self) -> bool:
        return not self.online

    def init_from_dataset(self, state: State, data: Experience) -> State:
        """Return the state with the mean and deviation of the data's observations."""
        state = super().init_from_dataset(state, data)
        states = state.density.states.update(observation_rows(self.normalise_batch(state, data).observation))
        states = states._replace(variance=(jnp.sqrt(states.variance) + LEAST_DEVIATION) ** 2)
        return state._replace(density=state.density._replace(states=states))

    def observe(self, state: State, rollout: Experience) -> State:
        """Return the state as it is: observations stay standardised by the data alone, as the authors have it."""
        return state

    def learn(
        self, state: State, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, Metrics, Float[Array, " batch"]]:
        density_key, draws = jax.random.split(jax.random.fold_in(key, 3))
        state = state._replace(draws=jax.random.key_data(draws))
        now, action = self.transitions(state, batch)
        density, uncertainty = self.train_autoencoder(state.density, now.observation, action, density_key)
        state, metrics, error = super().learn(self.update_guidance(state, density), batch, clock, key)  # type: ignore[safe-super]
        return state._replace(density=density), metrics | {"uncertainty": uncertainty}, error

    def update_guidance(self, state: State, density: Density) -> State:
        """Return the state for this update's networks, given the density after it."""
        return state

    def train_autoencoder(
        self, density: Density, observation: PyTree[Array], action: Float[Array, "batch dimensions"], key: Array
    ) -> tuple[Density, Float[Array, ""]]:
        """Take one step of the autoencoder; also return its mean loss."""

        def loss(autoencoder: Autoencoder) -> Float[Array, ""]:
            return density.uncertainty(observation, action, key, autoencoder).mean()

        error, gradient = jax.value_and_grad(loss)(density.autoencoder)
        autoencoder, optimiser = self.density_descent().step(gradient, density.optimiser, density.autoencoder)
        return density._replace(autoencoder=autoencoder, optimiser=optimiser), error

    def noise(self, spec: Spec) -> Any:
        """Return `None` online: the agent selects exploring actions itself, so a behaviour cannot give it noise."""
        return None if self.online else super().noise(spec)

    def act(self, state: State, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        if not (inputs.explore and self.online):
            return super().act(state, inputs)  # type: ignore[safe-super]
        rows = apply_norm(state.norm, inputs.observation)
        rows = jax.tree.map(lambda x: jnp.broadcast_to(x, (self.candidates, *jnp.shape(x))), rows)
        draw_key, code_key, choice_key = jax.random.split(inputs.key, 3)
        action = self.draw_candidates(state, rows, draw_key)
        value = self.policy_value(state.critics, rows, action)
        unlike = state.density.uncertainty(rows, action, code_key)
        action = action[self.choice(value, unlike, choice_key)]
        return state.actor.actions.to_box(jnp.clip(action, -1.0, 1.0)), inputs.hidden, ()

    def draw_candidates(self, state: State, rows: PyTree[Array], key: Key[Array, ""]) -> Float[Array, "row dimensions"]:
        """Return a candidate for each row."""
        raise NotImplementedError

    def choice(
        self, value: Float[Array, " candidate"], unlike: Float[Array, " candidate"], key: Key[Array, ""]
    ) -> Int[Array, ""]:
        """Return the index of the candidate to take."""
        raise NotImplementedError


class SUNG(GuidedExploration, TD3BC):
    """TD3+BC that continues online with guidance by uncertainty (Guo et al., 2023, arXiv 2306.07541).

    Learn from data first, and go on with `--from RUN --online true --memory mixed --memory.data FILE --memory.share
    0.1 --memory.capacity 20000`.
    """

    example: ClassVar[str] = "forage train sung Pendulum-v1 --data mixed.npz --steps 5000"

    policy_q: str = equinox.field(static=True, default="first")
    policy_delay: int = equinox.field(static=True, default=2)  # critic updates for each update of policy and targets
    normalise_observation: bool = equinox.field(static=True, default=True)  # observations are standardised by the data
    # set's mean and deviation
    kept: int = equinox.field(static=True, default=10)  # candidates of the highest value, of which one is drawn by
    # uncertainty; more explore further; the authors'
    caution: float = 0.05  # weight of imitation online, where the policy's actions are unlike the data; the authors'
    uncertain_share: float = equinox.field(static=True, default=0.05)  # share of a batch that imitates online, that of
    # the largest uncertainty; the authors'

    def init(self, key: Key[Array, ""], spec: Spec) -> SUNGState:
        plain = super().init(key, spec)
        return SUNGState.extend(plain, **self.init_guidance(key, spec, plain.actor.actions.outputs))

    def update_guidance(self, state: State, density: Density) -> State:
        return state._replace(density=density)  # their policy's step comes after the autoencoder's

    def draw_candidates(self, state: State, rows: PyTree[Array], key: Key[Array, ""]) -> Float[Array, "row dimensions"]:
        action = state.actor(rows)
        return action + self.exploration_noise * jax.random.normal(key, action.shape)

    def choice(
        self, value: Float[Array, " candidate"], unlike: Float[Array, " candidate"], key: Key[Array, ""]
    ) -> Int[Array, ""]:
        """Return one of the `kept` candidates of the highest value, drawn with the softmax of the uncertainty."""
        best = jax.lax.top_k(value, self.kept)[1]
        return best[jax.random.categorical(key, unlike[best])]

    def actor_loss(
        self, actor: td3.DeterministicActor, state: State, inputs: UpdateInputs
    ) -> tuple[Float[Array, ""], Metrics]:
        """Compute the policy's loss: TD3+BC's or, online, values relative to their size and uncertain imitation."""
        return (self.careful_loss if self.online else super().actor_loss)(actor, state, inputs)

    def careful_loss(
        self, actor: td3.DeterministicActor, state: State, inputs: UpdateInputs
    ) -> tuple[Float[Array, ""], Metrics]:
        """Compute the policy's loss online: values relative to their size, and imitation of the most uncertain."""
        observation, counts = inputs.now.observation, inputs.now.counts
        own = actor(observation)
        value = self.policy_value(state.critics, observation, own)
        size = jax.lax.stop_gradient(weighted_mean(jnp.abs(value), counts))
        unlike = jax.lax.stop_gradient(state.density.uncertainty(observation, own, prng.from_data(state.draws)))
        most = jax.lax.top_k(unlike, share_of(self.uncertain_share, len(unlike)))[1]
        distance = jnp.mean(self.distance(own, inputs.action)[most])
        return self.caution * distance - self.alpha * weighted_mean(value, counts) / jnp.maximum(size, 1e-8), {}


class SUNGCQL(GuidedExploration, CQL):
    """CQL that continues online with guidance by uncertainty (Guo et al., 2023, arXiv 2306.07541).

    Learn from data first, and go on with `--from RUN --online true --memory mixed --memory.data FILE --memory.share
    0.1 --memory.capacity 20000`.
    """

    example: ClassVar[str] = "forage train sung-cql Pendulum-v1 --data mixed.npz --steps 5000"

    stochastic: ClassVar[bool] = False

    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256))
    kept: int = equinox.field(static=True, default=20)  # candidates of the largest uncertainty, of which one is drawn
    # by value; more explore less; the authors'
    caution: float = 0.1  # weight of the gap online, beside `conservatism`; the authors'
    uncertain_share: float = equinox.field(static=True, default=0.1)  # share of a batch over which the gap is taken
    # online, drawn by uncertainty; the authors'

    def init(self, key: Key[Array, ""], spec: Spec) -> SUNGCQLState:  # type: ignore[override]
        plain: Any = super().init(key, spec)
        return SUNGCQLState.extend(plain, **self.init_guidance(key, spec, plain.actor.actions.outputs))

    def draw_candidates(self, state: State, rows: PyTree[Array], key: Key[Array, ""]) -> Float[Array, "row dimensions"]:
        policy = state.actor(rows)
        return policy.from_noise(jax.random.normal(key, policy.mean.shape))[0]

    def choice(
        self, value: Float[Array, " candidate"], unlike: Float[Array, " candidate"], key: Key[Array, ""]
    ) -> Int[Array, ""]:
        """Return one of the `kept` candidates of the largest uncertainty, drawn with the softmax of the value."""
        most = jax.lax.top_k(unlike, self.kept)[1]
        return most[jax.random.categorical(key, value[most])]

    def conservative_loss(
        self,
        critics: ActionValue,
        state: Any,
        inputs: UpdateInputs,
        target: Float[Array, " batch"],
        sampled: SampledActions,
    ) -> tuple[Float[Array, ""], tuple[CriticReport, Float[Array, " critic"]]]:
        """Compute CQL's loss; online the gap is over some of the batch, drawn by uncertainty, and counts less."""
        if not self.online:
            return super().conservative_loss(critics, state, inputs, target, sampled)
        loss, report = self.critic_loss(critics, inputs, target)
        code_key, row_key = jax.random.split(prng.from_data(state.draws))
        unlike = state.density.uncertainty(inputs.now.observation, inputs.action, code_key)
        rows = jax.random.categorical(row_key, unlike, shape=(share_of(self.uncertain_share, len(unlike)),))
        now, action, weight = jax.tree.map(lambda x: x[rows], (inputs.now, inputs.action, inputs.weight))
        some = inputs._replace(now=now, action=action, weight=weight)
        some_sampled = sampled._replace(action=sampled.action[rows], log_density=sampled.log_density[rows])
        gap = self.caution * self.gaps(critics, some, some_sampled)
        multiplier = jax.lax.stop_gradient(self.weight(state.log_weight))
        return 2 * loss + multiplier * jnp.sum(self.conservatism * gap), (report, gap)


def share_of(share: float, rows: int) -> int:
    """Return the number of rows in a share, at least one."""
    return max(1, int(share * rows))
