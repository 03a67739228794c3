"""Coarse-to-fine Q-network (CQN): continuous actions by zooming into them, level by level.

Seo, Uruc, James (2024), "Continuous Control with Coarse-to-fine Reinforcement Learning", arXiv 2407.07787. At each of
L levels the interval of every dimension of the action is cut into B equal ones (`intervals`), and the network says what
each of these is worth; the best becomes the interval of the next level. One network serves all levels: it is told the
level and the middle c_l of the intervals so far. Values are means of distributions over fixed atoms, as in `c51`, in
dueling streams. With a_l the interval in which action a lies at level l, each level and dimension d goes down

    -sum_i m_i log p_i(s, c_l, a_l, d),   averaged over levels and dimensions

where m is the projection of r + ... + discount^n z under the target network's p'(s', c'_l, a'_l, d) of the same level
and dimension, and a' is the action into which the online network zooms. Actions are those of the target network;
exploring, noise is added, and what comes out is moved to the middle of its finest interval. Where all intervals are
worth the same (within 1e-4), as at first, one is drawn.

Transitions of a data set (`--memory mixed`) may be demonstrations. With `imitation`, their actions are to be better
than all others at each level, in the sense that the distribution F of their return lies to the right of each other:

    imitation (sum_i max(F_i(a_l) - F_i(b), 0) + max(margin - Q(a_l) + Q(b), 0)),   averaged over all intervals b

Losses and numbers are those of the authors' programs (cqn.py, cqn_utils.py and cfgs/config_rlbench.yaml of
github.com/younggyoseo/CQN; layers, learning rate, noise and n-step returns of
cfgs/config_cqn_dmc_state.yaml of github.com/younggyoseo/CQN-AS, for tasks without pictures). The paper's own tables
could not be looked up. Their atoms go from -2 to 2, for sparse rewards, and their loss of values has the weight 0.1
beside 1 for imitation, which is 10 here. Pictures are read by the encoder of all our agents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import optax
from jax.scipy.special import xlogy
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.agents.q_learning.c51 import project_atoms
from forage.core.ports import ActInputs, Agent, Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges, check_order, check_segments
from forage.core.types import DATASET, Batch, Clock, Experience, Spec
from forage.nn.distributions import Actions
from forage.nn.layers import MLP
from forage.nn.networks import NetworkConfig, Torso
from forage.ops import returns
from forage.ops.optimiser import Optimiser, blend

SAME = 1e-4
"""Largest difference between values of intervals that count as equally good."""


class Zooming(NamedTuple):
    """The nested intervals around an action, with the middle of each level's starting interval."""

    index: Int[Array, "batch level dimensions"]  # of the interval, at each level
    middle: Float[Array, "batch level dimensions"]  # of the intervals before that level, in the unit box
    action: Float[Array, "batch dimensions"]  # the middle of the finest


class CoarseToFine(equinox.Module):
    """Logits of the distribution of the return, for each interval of each dimension at any level."""

    torso: Torso
    advantage: MLP
    state_value: MLP
    actions: Actions = equinox.field(static=True)
    dimensions: int = equinox.field(static=True)
    levels: int = equinox.field(static=True)
    intervals: int = equinox.field(static=True)
    atoms: int = equinox.field(static=True)
    low: float = equinox.field(static=True)
    high: float = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], spec: Spec, agent: CQN):
        torso_key, advantage_key, value_key = jax.random.split(key, 3)
        self.actions = Actions.from_space(spec.action_space)
        self.dimensions, self.levels, self.intervals = self.actions.outputs, agent.levels, agent.intervals
        self.atoms, self.low, self.high = agent.atoms, agent.low, agent.high
        self.torso = Torso(
            torso_key, spec.observation_space, (), NetworkConfig(agent.activation, encoder=agent.encoder)
        )
        self.advantage = self.stream(advantage_key, self.dimensions * self.intervals * self.atoms, agent)
        self.state_value = self.stream(value_key, self.dimensions * self.atoms, agent)

    def stream(self, key: Key[Array, ""], outputs: int, agent: CQN) -> MLP:
        """Make one of the two streams, with the authors' orthogonal layers and a last layer of zeros."""
        sizes = self.torso.size + self.dimensions + self.levels, *agent.hidden_sizes, outputs
        mlp = MLP(key, sizes, agent.activation, gain=1.0, layer_norm=True)
        last = lambda n: (n.layers[-1].weight, n.layers[-1].bias)  # noqa: E731
        return equinox.tree_at(last, mlp, replace_fn=jnp.zeros_like)

    @property
    def places(self) -> Float[Array, " atoms"]:
        """Return the returns that the atoms stand for."""
        return jnp.linspace(self.low, self.high, self.atoms)

    def logits(
        self, features: Float[Array, "batch features"], middle: Float[Array, "batch dimensions"], level: int
    ) -> Float[Array, "batch dimensions intervals atoms"]:
        """Return the logits of all intervals of a level, within the intervals of these middles."""
        return self.combine_streams(self.inputs(features, middle, level), self.dimensions)

    def inputs(self, features: Array, middle: Array, level: int) -> Float[Array, "*batch inputs"]:
        """Return the inputs of the streams."""
        which = jnp.broadcast_to(jax.nn.one_hot(level, self.levels), (*features.shape[:-1], self.levels))
        return jnp.concatenate([features, middle, which], axis=-1)

    def combine_streams(self, inputs: Float[Array, "*batch inputs"], dimensions: int) -> Any:
        """Return V + A - mean A of the streams, over the intervals of each dimension."""
        shape = *inputs.shape[:-1], dimensions, -1, self.atoms
        advantage, value = self.advantage(inputs).reshape(shape), self.state_value(inputs).reshape(shape)
        return value + advantage - advantage.mean(-2, keepdims=True)

    def value(self, logits: Float[Array, "*batch atoms"]) -> Float[Array, "*batch"]:
        """Compute the mean return."""
        return jax.nn.softmax(logits) @ self.places

    def width(self, level: int) -> float:
        """Return the width of the intervals before a level, in the unit box."""
        return 2.0 / self.intervals**level

    def zoom_in(self, middle: Any, index: Any, level: int) -> Any:
        """Return the middles of the intervals with these numbers at a level."""
        return middle - self.width(level) / 2 + (index + 0.5) * self.width(level + 1)

    def walk(self, rows: int, choose: Callable[[int, Any], Any]) -> Zooming:
        """Zoom in from the whole unit box by `choose(level, middle)`, a function that returns indices of intervals."""
        middle, found = jnp.zeros((rows, self.dimensions)), []
        for level in range(self.levels):
            index = choose(level, middle)
            found.append((index, middle))
            middle = self.zoom_in(middle, index, level)
        index, before = (jnp.stack(each, axis=1) for each in zip(*found, strict=True))
        return Zooming(index, before, middle)

    def greedy(self, features: Float[Array, "batch features"], key: Key[Array, ""]) -> Zooming:
        """Zoom into the best intervals; of those that are worth the same, into one drawn with the key."""

        def choose(level: int, middle: Array) -> Array:
            q = self.value(self.logits(features, middle, level))
            drawn = jax.random.randint(jax.random.fold_in(key, level), q.shape[:-1], 0, self.intervals)
            return jnp.where(q.max(-1) - q.min(-1) < SAME, drawn, q.argmax(-1))

        return self.walk(len(features), choose)

    def lying(self, action: Float[Array, "batch dimensions"]) -> Zooming:
        """Zoom into the intervals that actions of the unit box lie in."""

        def choose(level: int, middle: Array) -> Array:
            place = (action - middle + self.width(level) / 2) / self.width(level + 1)
            return jnp.clip(jnp.floor(place), 0, self.intervals - 1).astype(jnp.int32)

        return self.walk(len(action), choose)

    def all_logits(
        self, features: Float[Array, "batch features"], path: Zooming
    ) -> Float[Array, "batch level dimensions intervals atoms"]:
        """Return the logits of all intervals at each level of a path."""
        levels = [self.logits(features, path.middle[:, level], level) for level in range(self.levels)]
        return jnp.stack(levels, axis=1)


def of_path(numbers: Float[Array, "batch level dimensions intervals atoms"], path: Zooming) -> Any:
    """Return the numbers of a path's own intervals."""
    return jnp.take_along_axis(numbers, path.index[..., None, None], axis=-2)[..., 0, :]


class CQNState(NamedTuple):
    network: CoarseToFine
    target: CoarseToFine
    optimiser: Any
    updates: Int[Array, ""]


class CQN(Agent):
    """Coarse-to-fine Q-network (Seo et al., 2024, arXiv 2407.07787), from its own steps or with demonstrations.

    The finest intervals are 2 / intervals^levels of the unit box wide. Returns outside `low` and `high` count as these,
    so that an environment whose returns are larger asks for others, or for `--rewards scale`.
    """

    example: ClassVar[str] = "forage train cqn Pendulum-v1 --low=-1000 --high 0"
    ranges: ClassVar[Ranges] = {
        "levels": Range(1),
        "intervals": Range(2),
        "atoms": Range(2),
        "low": Range(),
        "high": Range(),
        "weight_decay": Range(0),
        "exploration_noise": Range(0),
        "imitation": Range(0),
        "margin": Range(0),
    }

    on_policy: ClassVar[bool] = False
    acting: ClassVar[str] = "target"
    needs: ClassVar[Needs] = Needs(actions="bounded", observations="any")

    learning_rate: float = 1e-4
    weight_decay: float = 0.1  # share of the weights that Adam's steps take off them, times the learning rate
    discount: float = 0.99
    polyak: float = 0.02  # how far each update of the target moves it towards the network
    exploration_noise: float = 0.1  # standard deviation of the noise on actions, in the unit box; larger explores more
    num_envs: int = equinox.field(static=True, default=1)
    rollout_length: int = equinox.field(static=True, default=1)
    updates_per_rollout: int = equinox.field(static=True, default=1)
    batch_size: int = equinox.field(static=True, default=256)
    learning_starts: int = equinox.field(static=True, default=1000)
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(512, 512))
    activation: str | Callable[[Any], Any] = equinox.field(static=True, default="silu")
    encoder: str | type | None = equinox.field(static=True, default=None)
    n_step: int = equinox.field(static=True, default=3)
    levels: int = equinox.field(static=True, default=3)  # times that the intervals of an action are cut
    intervals: int = equinox.field(static=True, default=5)  # into which each interval is cut; more are finer, and
    # harder to tell apart
    atoms: int = equinox.field(static=True, default=51)  # returns that are told apart, evenly from low to high
    low: float = equinox.field(static=True, default=-100.0)  # the lowest return; what is below counts as this
    high: float = equinox.field(static=True, default=100.0)  # the highest return; what is above counts as this
    imitation: float = 0.0  # weight of the loss that makes the actions of data sets better than others; the authors'
    # is 10, for demonstrations
    margin: float = 0.01  # by how much such actions are to be worth more, as the authors'

    @property
    def segment(self) -> int:
        return self.n_step

    def check(self, spec: Spec) -> None:
        check_order(self, "low", "high")
        check_segments(self)

    def network(self, key: Key[Array, ""], spec: Spec) -> CoarseToFine:
        """Make the network of values."""
        return CoarseToFine(key, spec, self)

    def init(self, key: Key[Array, ""], spec: Spec) -> CQNState:
        network = self.network(key, spec)
        return CQNState(network, jax.tree.map(jnp.copy, network), self.descent().init(network), jnp.int32(0))

    def descent(self) -> Optimiser:
        return Optimiser(optax.adamw(self.learning_rate, weight_decay=self.weight_decay))

    def act(self, state: CQNState, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        noise = inputs.noise
        tie_key, noise_key = jax.random.split(inputs.key)
        network = state.target
        features = network.torso.rows(jax.tree.map(lambda x: jnp.asarray(x)[None], inputs.observation))
        action, hidden = self.executed_action(network.greedy(features, tie_key).action[0], inputs.hidden)
        if inputs.explore:
            noise = jax.random.normal(noise_key, action.shape) if noise is None else noise
            action = self.snap_action(network, jnp.clip(action + self.exploration_noise * noise, -1.0, 1.0))
        return network.actions.to_box(action), hidden, ()

    def executed_action(
        self, action: Float[Array, " dimensions"], hidden: Any
    ) -> tuple[Float[Array, " dimensions"], Any]:
        """Return the action to take for the network's action, and the memory to keep."""
        return action, hidden

    def snap_action(self, network: CoarseToFine, action: Float[Array, " dimensions"]) -> Float[Array, " dimensions"]:
        """Return the middle of the finest interval around an action."""
        return network.lying(action[None]).action[0]

    def noise(self, spec: Spec) -> tuple[int, ...]:
        return (Actions.from_space(spec.action_space).outputs,)

    def batch_actions(self, network: CoarseToFine, experience: Experience) -> Float[Array, "batch dimensions"]:
        """Return the actions that values are learned of, in the unit box (leaves of `experience`: `time batch ...`)."""
        return jax.vmap(network.actions.action_features)(experience.action[0])

    def learn(
        self, state: CQNState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[CQNState, Metrics, Float[Array, " batch"]]:
        gradient, (error, metrics) = jax.grad(self.loss, has_aux=True)(state.network, state.target, batch, key)
        network, optimiser = self.descent().step(gradient, state.optimiser, state.network)
        target = blend(network, state.target, self.polyak)
        error = error * batch.experience.counts[0]
        return CQNState(network, target, optimiser, state.updates + 1), metrics, error

    def loss(
        self, network: CoarseToFine, target: CoarseToFine, batch: Batch, key: Key[Array, ""]
    ) -> tuple[Float[Array, ""], tuple[Float[Array, " batch"], Metrics]]:
        """Compute the weighted loss; also return each transition's mean divergence of predictions from their targets.

        `key`: intervals of the same worth are drawn with.
        """
        experience, places = batch.experience, network.places
        rows = jnp.arange(len(batch.weight))
        weight = batch.weight * experience.counts[0]

        # The distributions of what follows, at each level and dimension
        total, _, bootstrap, after = returns.fold_segments(experience, self.n_step, self.discount)
        following = network.greedy(network.torso.rows(after), key)
        later = of_path(jax.nn.softmax(target.all_logits(target.torso.rows(after), following)), following)
        moved = total[:, None] + bootstrap[:, None] * places
        project = jax.vmap(lambda p: project_atoms(p, moved, places), 1, 1)  # of all levels and dimensions
        goal = project(later.reshape(len(rows), -1, network.atoms)).reshape(later.shape)
        goal = jax.lax.stop_gradient(goal)

        # Cross-entropy of what was done
        path = network.lying(self.batch_actions(network, experience))
        now = jax.tree.map(lambda x: x[0], experience.observation)
        logits = network.all_logits(network.torso.rows(now), path)
        own = of_path(logits, path)
        each = -jnp.sum(goal * jax.nn.log_softmax(own), axis=-1).mean((1, 2))
        divergence = each + xlogy(goal, goal).sum(-1).mean((1, 2))
        loss = jnp.mean(weight * each)
        q = network.value(own)
        metrics = {"q": q.mean(), "error": jnp.abs(goal @ places - q).mean()}

        # Imitation of demonstrations
        shown = weight * (experience.source[0] == DATASET)
        behind = self.shortfall(network, logits, path)
        imitated = jnp.sum(shown * behind) / jnp.maximum(shown.sum(), 1e-8)
        loss = loss + self.imitation * imitated
        return loss, (divergence, metrics | {"loss": loss})

    def shortfall(
        self, network: CoarseToFine, logits: Float[Array, "batch level dimensions intervals atoms"], path: Zooming
    ) -> Float[Array, " batch"]:
        """Compute each path's shortfall from being better than all other intervals: the last formula above."""
        shares, values = jnp.cumsum(jax.nn.softmax(logits), axis=-1), network.value(logits)
        own = jnp.take_along_axis(values, path.index[..., None], axis=-1)
        order = jnp.maximum(of_path(shares, path)[..., None, :] - shares, 0.0).sum(-1)
        return (order + jnp.maximum(self.margin - (own - values), 0.0)).mean((1, 2, 3))
