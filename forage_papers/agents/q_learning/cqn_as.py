"""Coarse-to-fine Q-network with action sequences (CQN-AS): values of several actions in a row.

Seo, Abbeel (2024), "Coarse-to-fine Q-Network with Action Sequence for Data-Efficient Robot Learning", arXiv 2411.12155.
As `cqn`, but the network says what sequences of K actions are worth: it zooms into all of them side by side, each step
k a row of its own, which is told its number and then read one after another by a GRU, so that step k knows what is done
before it. A sequence's target is that of `cqn`, at each step, level and dimension; its actions are those of the replay,
and the last one is repeated where the episode ends before them.

What is done is an average over the sequences of the last K steps, of what each of them has for now (temporal
ensembling, Zhao, Kumar, Levine, Finn, 2023, "Learning Fine-Grained Bimanual Manipulation with Low-Cost Hardware",
arXiv 2304.13705): with weights exp(-ensembling i), i = 0 being the oldest. Exploring, noise is added to that average,
and what comes out is done as it is.

K, layers, learning rate and noise are those of the authors' program for tasks without pictures
(cfgs/config_cqn_as_humanoid.yaml and humanoid_src of github.com/younggyoseo/CQN-AS), with half as many units. There
values are numbers, targets are copied, the network itself acts, and every other step has an update, where `cqn` stands
here; the paper's own tables could not be looked up. Their ensembling, 0.01 as well, leaves out sequences which have
exactly 0 for now in any dimension; here they count. Their GRUs begin uniform, as PyTorch's do; here orthogonal.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from forage.core.ranges import Range, Ranges
from forage.core.types import Experience, ForageError, Spec
from forage.nn.distributions import Actions
from forage.nn.layers import MLP
from forage.nn.networks import GRU
from forage_papers.agents.q_learning.cqn import CQN, CoarseToFine


class SequencePlans(NamedTuple):
    """The sequences of the last steps, newest first."""

    sequences: Float[Array, "age step dimensions"]
    count: Int[Array, ""]  # how many there have been in the episode


class SequenceNetwork(CoarseToFine):
    """`CoarseToFine` of a sequence of actions, with their dimensions in one row."""

    grus: tuple[GRU, GRU]  # of the two streams
    heads: tuple[MLP, MLP]
    steps: int = equinox.field(static=True)
    each: int = equinox.field(static=True)  # dimensions of one action

    def __init__(self, key: Key[Array, ""], spec: Spec, agent: CQNAS):
        super().__init__(key, spec, agent)
        self.steps, self.each = agent.sequence, self.dimensions
        self.dimensions = self.steps * self.each
        keys = jax.random.split(jax.random.fold_in(key, 1), 6)
        inputs = self.torso.size + self.each + self.steps + self.levels
        size, numbers = agent.hidden_sizes[-1], self.each * self.atoms
        layers = inputs, *agent.hidden_sizes
        make = lambda key: MLP(key, layers, agent.activation, 1.0, activate_last=True, layer_norm=True)  # noqa: E731
        self.advantage, self.state_value = make(keys[0]), make(keys[1])
        self.grus = GRU(keys[2], size, 0, size), GRU(keys[3], size, 0, size)
        outputs = self.intervals * numbers, numbers
        heads = (MLP(k, (size, n)) for k, n in zip(keys[4:], outputs, strict=True))
        self.heads = tuple(jax.tree.map(jnp.zeros_like, head) for head in heads)  # pyrefly: ignore[bad-assignment]

    def logits(
        self, features: Float[Array, "batch features"], middle: Float[Array, "batch dimensions"], level: int
    ) -> Float[Array, "batch dimensions intervals atoms"]:
        shape = len(features), self.steps
        number = jnp.broadcast_to(jnp.eye(self.steps), (*shape, self.steps))
        rows = jnp.broadcast_to(features[:, None], (*shape, features.shape[-1]))
        middles = jnp.concatenate([middle.reshape(*shape, self.each), number], axis=-1)
        inputs = self.inputs(rows, middles, level)
        streams = zip((self.advantage, self.state_value), self.grus, self.heads, strict=True)
        advantage, value = (
            head(self.gru_states(gru, body(inputs))).reshape(len(features), self.dimensions, -1, self.atoms)
            for body, gru, head in streams
        )
        return value + advantage - advantage.mean(-2, keepdims=True)

    def gru_states(self, gru: GRU, x: Float[Array, "batch step size"]) -> Float[Array, "batch step size"]:
        """Return the GRU's state after each step."""

        def turn(h: Array, x: Array) -> tuple[Array, Array]:
            h = jax.vmap(gru.step)(h, x)
            return h, h

        return jax.lax.scan(turn, jnp.zeros_like(x[:, 0]), gru.inputs(x).swapaxes(0, 1))[1].swapaxes(0, 1)


class CQNAS(CQN):
    """CQN with action sequences (Seo and Abbeel, 2024, arXiv 2411.12155)."""

    example: ClassVar[str] = "forage train cqn-as Pendulum-v1 --low=-1000 --high 0"
    ranges: ClassVar[Ranges] = {"sequence": Range(1), "ensembling": Range(0)}

    sequence: int = equinox.field(static=True, default=4)  # actions in a row whose worth is learned; more look further,
    # and are more to learn
    ensembling: float = 0.01  # how much less newer sequences count than older ones in what is done; 0: all alike
    learning_rate: float = 5e-5
    exploration_noise: float = 0.01
    batch_size: int = equinox.field(static=True, default=128)

    def __check_init__(self):
        if not self.hidden_sizes:
            raise ForageError("The GRUs of cqn-as read a hidden layer; give hidden_sizes one size or more.")

    @property
    def segment(self) -> int:
        return max(self.n_step, self.sequence)

    def network(self, key: Key[Array, ""], spec: Spec) -> CoarseToFine:
        return SequenceNetwork(key, spec, self)

    def init_hidden(self, spec: Spec) -> SequencePlans:
        dimensions = Actions.from_space(spec.action_space).outputs
        return SequencePlans(jnp.zeros((self.sequence, self.sequence, dimensions)), jnp.int32(0))

    def executed_action(
        self, action: Float[Array, " dimensions"], hidden: SequencePlans
    ) -> tuple[Float[Array, " each"], SequencePlans]:
        """Return the average of the last sequences' actions for now, and these sequences with the new one in front."""
        sequences = jnp.concatenate([action.reshape(1, *hidden.sequences.shape[1:]), hidden.sequences[:-1]])
        age = jnp.arange(self.sequence)
        number = jnp.minimum(hidden.count + 1, self.sequence)  # of sequences that reach now
        weight = jnp.where(age < number, jnp.exp(-self.ensembling * (number - 1 - age)), 0.0)
        now = sequences[age, age]
        return weight @ now / weight.sum(), SequencePlans(sequences, number)

    def snap_action(self, network: CoarseToFine, action: Float[Array, " each"]) -> Float[Array, " each"]:
        return action

    def batch_actions(self, network: CoarseToFine, experience: Experience) -> Float[Array, "batch dimensions"]:
        ended = experience.ended[: self.sequence]
        step = jnp.arange(self.sequence)
        last = jnp.min(jnp.where(ended, step[:, None], self.sequence - 1), axis=0)
        action: Any = jax.vmap(jax.vmap(network.actions.action_features))(experience.action[: self.sequence])
        place = jnp.minimum(step[:, None], last)
        action = jnp.take_along_axis(action, place[..., None], axis=0)
        return action.swapaxes(0, 1).reshape(len(last), -1)
