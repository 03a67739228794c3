"""Soft actor-critic's policy and losses for mixed actions: choices and numbers.

Delalleau, Peter, Alonso, Logut (2019), "Discrete and Continuous Action Representation for Practical RL in Video Games",
arXiv 1912.11077 (Hybrid SAC). The policy is pi(d|s) pi(c|s,d): d is one of all combinations of the choices, and each
has a squashed Gaussian of its own for the numbers c. Expectations over d are exact, as in soft actor-critic for
discrete actions; with c_d ~ pi(.|s,d) and temperatures alpha_d of choices and alpha_c of numbers, each update takes one
step down each of

    critics       sum_i (Q_i(s, d, c) - r - discount (1 - terminated) V(s'))^2 / 2
                  V(s) = sum_d pi(d|s) (min_j Q'_j(s, d, c_d) - alpha_d log pi(d|s) - alpha_c log pi(c_d|s,d))
    actor         sum_d pi(d|s) (alpha_d log pi(d|s) + alpha_c log pi(c_d|s,d) - min_i Q_i(s, d, c_d))
    temperatures  alpha_d (H(pi(.|s)) - H_d)  +  alpha_c (sum_d pi(d|s) H(pi(.|s,d)) - H_c)

in this order. Combinations that a mask forbids have probability zero. The paper's text could not be looked up, only
accounts of it and a program of others, so the entropy targets are choices of ours.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.agents.actor_critic.base import UpdateInputs
from forage.core.ports import ActInputs, Metrics, State
from forage.core.spaces import allowed, describe_space, split_mask
from forage.core.types import ForageError, Spec
from forage.nn.distributions import Actions, Categorical, SquashedGaussian, join_parts, squash_to
from forage.nn.networks import NetworkConfig, TorsoHead
from forage.nn.normalise import apply_norm
from forage.ops.losses import join_metrics
from forage.ops.rows import weighted_mean

if TYPE_CHECKING:
    from forage.agents.actor_critic.sac import SAC

MOST_COMBINATIONS = 256


class HybridPolicy(NamedTuple):
    """The probabilities of all combinations of choices, and the distribution of the numbers for each."""

    choice: Categorical  # logits `batch combinations`
    numbers: SquashedGaussian  # `batch combinations dimensions`


class HybridActor(TorsoHead):
    """Logits of all combinations of choices, and for each a mean and a deviation of the numbers."""

    actions: Actions = equinox.field(static=True)
    bounds: tuple[float, float] = equinox.field(static=True)  # of the deviation's logarithm
    squashed: bool = equinox.field(static=True)  # a tanh brings it between them; else it is cut

    def __init__(
        self,
        key: Key[Array, ""],
        spec: Spec,
        hidden_sizes: tuple[int, ...],
        style: NetworkConfig,
        bounds: tuple[float, float],
        squashed: bool,
    ):
        self.actions, self.bounds, self.squashed = Actions.from_space(spec.action_space), bounds, squashed
        outputs = len(self.combinations) * (1 + 2 * self.dimensions)
        super().__init__(key, spec.observation_space, hidden_sizes, style, outputs, head_gain=style.head_gain)

    @property
    def log_std(self) -> None:
        """Return no weights of noise that depends on the state, which mixed actions have not."""
        return None

    @property
    def dimensions(self) -> int:
        """Return the number of numbers that are chosen."""
        return len(self.actions.low)

    @property
    def combinations(self) -> Int[np.ndarray, "combinations choices"]:
        """Return all combinations of the choices, the last choice changing fastest."""
        return np.indices(self.actions.sizes).reshape(len(self.actions.sizes), -1).T

    def __call__(self, observation: PyTree[Array]) -> HybridPolicy:
        """Return the policies of a batch (leaves `batch ...`)."""
        outputs, mask = self.head(self.torso.rows(observation)), split_mask(observation)[1]
        number = len(self.combinations)
        logits, numbers = jnp.split(outputs, [number], axis=1)
        choice = Categorical(logits)
        if mask is not None:
            choice = jax.vmap(Categorical.from_logits)(logits, jax.vmap(self.joint_mask)(mask))
        mean, log_std = jnp.split(numbers.reshape(len(outputs), number, -1), 2, axis=-1)
        log_std = squash_to(log_std, *self.bounds) if self.squashed else jnp.clip(log_std, *self.bounds)
        return HybridPolicy(choice, SquashedGaussian(mean, log_std))

    def joint_mask(self, mask: Bool[Array, " options"]) -> Bool[Array, " combinations"]:
        """Return the mask of the combinations of which each option is allowed."""
        parts = jnp.split(mask, np.cumsum(self.actions.sizes)[:-1].tolist())
        # Products with constants, as exported files have no lookups in arrays of the batch.
        each = [
            np.eye(part.size, dtype=np.float32)[options] @ allowed(part).astype(jnp.float32) > 0
            for part, options in zip(parts, self.combinations.T, strict=True)
        ]
        return jnp.stack(each).all(0)

    def features(
        self, numbers: Float[Array, "batch combinations dimensions"]
    ) -> Float[Array, "batch*combinations features"]:
        """Return actions as the critics read them: each combination, one-hot, with its numbers in the unit box."""
        pairs = zip(self.actions.sizes, self.combinations.T, strict=True)
        options = np.concatenate([np.eye(size, dtype=np.float32)[chosen] for size, chosen in pairs], axis=1)
        joined = jnp.concatenate([jnp.broadcast_to(options, (len(numbers), *options.shape)), numbers], axis=-1)
        return joined.reshape(-1, joined.shape[-1])


class Entropies(NamedTuple):
    """The entropies of one step of the actor, and its loss."""

    choices: Float[Array, " batch"]
    numbers: Float[Array, " batch"]  # estimated by one draw for each combination
    loss: Float[Array, ""]
    metrics: Metrics = {}  # in addition, of an agent of one's own

    def __or__(self, metrics: Metrics) -> Entropies:
        """Return the report with more metrics."""
        return self._replace(metrics=self.metrics | metrics)


def check_combinations(name: str, spec: Spec) -> None:
    """Raise `ForageError` for more combinations of choices than critics can be asked of."""
    number = math.prod(Actions.from_space(spec.action_space).sizes)
    if number > MOST_COMBINATIONS:
        raise ForageError(
            f"{name} asks its critics of each combination of choices, {MOST_COMBINATIONS} at most, and {spec.name} has "
            f"{number:,} in {describe_space(spec.action_space)}; ppo learns there."
        )


def act(state: State, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
    """Draw a combination of choices and its numbers, or take the most probable ones; see `Agent.act`."""
    actor, observation = state.actor, apply_norm(state.norm, inputs.observation)
    policy = jax.tree.map(lambda x: x[0], actor(jax.tree.map(lambda x: x[None], observation)))
    choice_key, number_key = jax.random.split(inputs.key)
    chosen = policy.choice.sample(choice_key) if inputs.explore else policy.choice.mode()
    own = jnp.arange(len(actor.combinations)) == chosen  # a product rather than a gather, which files know
    numbers = SquashedGaussian(*(jnp.sum(jnp.where(own[:, None], x, 0.0), 0) for x in policy.numbers))
    options = jnp.sum(jnp.where(own[:, None], jnp.asarray(actor.combinations, jnp.float32), 0.0), 0)
    unit = numbers.sample(number_key)[0] if inputs.explore else numbers.mode()
    return actor.actions.to_box(join_parts(options, unit)), inputs.hidden, ()


def log_probability(
    actor: HybridActor, observation: PyTree[Array], action: Float[Array, "row entries"], edge: float
) -> Float[Array, " row"]:
    """Compute log pi(d|s) + log pi(c|s,d) of rows, of numbers in the unit box no further out than `edge`."""
    policy, unit = actor(observation), jax.vmap(actor.actions.unit_action)(action)
    options, numbers = jnp.split(unit, [len(actor.actions.sizes)], axis=1)
    own = (options[:, None, :] == actor.combinations).all(-1)  # `row combinations`
    mean, log_std = (jnp.sum(jnp.where(own[..., None], x, 0.0), 1) for x in policy.numbers)
    before = jnp.arctanh(jnp.clip(numbers, -edge, edge))
    density = SquashedGaussian(mean, log_std).from_noise((before - mean) / jnp.exp(log_std))[1]
    return jnp.sum(jnp.where(own, policy.choice.log_probabilities, 0.0), 1) + density


def soft_values(
    values: Float[Array, "*samples batch combinations"],
    policy: HybridPolicy,
    log_density: Float[Array, "batch combinations"],
    state: State | None,
) -> Float[Array, "*samples batch"]:
    """Compute the values of states from those of all combinations, with both entropies by the temperatures of a
    `state`.
    """
    log_choice = policy.choice.log_probabilities
    if state is not None:
        values = values - jnp.exp(state.log_choice_temperature) * log_choice
        values = values - jnp.exp(state.log_temperature) * log_density
    return jnp.sum(jnp.exp(log_choice) * values, axis=-1)


def next_value(agent: SAC, state: State, inputs: UpdateInputs) -> Float[Array, "*samples batch"]:
    """Compute V(s') by the target critics."""
    observation, actor = inputs.now.next_observation, state.actor
    policy = actor(observation)
    numbers, log_density = policy.numbers.from_noise(inputs.next_noise)
    rows = repeat_rows(observation, numbers.shape[1])
    values = agent.next_value(state.target_critics, rows, actor.features(numbers), inputs.keys)
    values = values.reshape(*values.shape[:-1], *log_density.shape)
    return soft_values(values, policy, log_density, state if agent.backup_entropy else None)


def actor_loss(
    agent: SAC, actor: HybridActor, state: State, inputs: UpdateInputs
) -> tuple[Float[Array, ""], Entropies]:
    """Compute the mean of -V(s) over the rows that count, V by the critics that learn."""
    observation, policy = inputs.now.observation, actor(inputs.now.observation)
    numbers, log_density = policy.numbers.from_noise(inputs.noise)
    rows = repeat_rows(observation, numbers.shape[1])
    values = agent.policy_value(state.critics, rows, actor.features(numbers), inputs.keys.policy_q)
    value = soft_values(values.reshape(log_density.shape), policy, log_density, state)
    loss = -weighted_mean(value, inputs.now.counts)
    log_choice = policy.choice.log_probabilities
    choices, drawn = (-jnp.sum(jnp.exp(log_choice) * x, axis=1) for x in (log_choice, log_density))
    return loss, Entropies(choices, drawn, loss)


def step_temperatures(agent: SAC, state: State, report: Entropies, inputs: UpdateInputs) -> tuple[State, Metrics]:
    """Take one step of both temperatures: each falls while its entropy is above its target."""
    counts, actor, descent = inputs.now.counts, state.actor, agent.temperature_descent()
    entropy = weighted_mean(report.choices + report.numbers, counts)
    metrics = join_metrics({"actor_loss": report.loss, "entropy": entropy}, report.metrics)
    if not agent.learn_temperature:
        return state, metrics
    mask = split_mask(inputs.now.observation)[1]
    number = jnp.float32(len(actor.combinations)) if mask is None else jax.vmap(actor.joint_mask)(mask).sum(1)
    target = agent.choice_entropy * jnp.log(number)
    excess = {
        "temperature": weighted_mean(report.numbers - agent.target_entropy * actor.dimensions, counts),
        "choice_temperature": weighted_mean(report.choices - target, counts),
    }
    for name, above in excess.items():
        now = getattr(state, f"log_{name}")
        # The gradient of alpha times the excess, with respect to log alpha
        now, optimiser = descent.step(jnp.exp(now) * above, getattr(state, f"{name}_optimiser"), now)
        state = state._replace(**{f"log_{name}": now, f"{name}_optimiser": optimiser})
    return state, metrics


def repeat_rows(observation: PyTree[Array], number: int) -> PyTree[Array]:
    """Return each row of observations `number` times, one after the other."""
    return jax.tree.map(lambda x: jnp.repeat(x, number, axis=0), observation)
