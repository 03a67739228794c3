"""Decision Transformer: supervised learning of actions, given the rewards that are still to come.

Chen, Lu, Rajeswaran, Lee, Grover, Laskin, Abbeel, Srinivas, Mordatch (2021), "Decision Transformer: Reinforcement
Learning via Sequence Modeling", arXiv 2106.01345. An episode of a data set is the sequence

    R_1, s_1, a_1, R_2, s_2, a_2, ...,   R_t = sum of the rewards from step t to the episode's end

A causal transformer reads the last `context` steps of it, three tokens each, and the output at s_t is the action a_t.
Tokens are linear in what they stand for, plus a learned vector for the step of the episode; then they are normalised.
Each update takes one step down

    continuous    mean (tanh(output) - a_t)^2, a_t in the unit box
    discrete      mean -log softmax(output)[a_t]

over sub-sequences that begin at any step of the data alike and end with their episode. While it acts, R_1 is what is
asked for, and R_{t+1} = R_t - r_t (algorithm 1). The context moves with the episode, and is read anew at every step.

The network, the losses of continuous actions, the batches, the update and the numbers are those of the authors' code
for Gym (kzl/decision-transformer: gym/experiment.py, decision_transformer.py, seq_trainer.py); the paper's tables could
not be looked up. Some things are ours: returns are divided by the largest of the data where the authors have a number
for each task; the last `context` - 1 transitions of a whole data set begin no sub-sequence; standardised observations
lie within -10 and 10; the layers by which the results of a block leave begin smaller, as `nn/vector_transformer.py`
says, and there like all others; and discrete actions have the loss above in this network, where the authors' code for
Atari has another network for pictures.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.agents.offline.base import OfflineAgent, best_return
from forage.core.ports import ActInputs, Metrics
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.spaces import example, observation_part, split_mask
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage.nn.distributions import Actions, draw_action
from forage.nn.layers import Linear, Norm
from forage.nn.networks import NetworkConfig, Torso
from forage.nn.normalise import Norms, apply_norm, input_space, norms_of, update_norms
from forage.nn.vector_transformer import TransformerConfig, VectorTransformer
from forage.ops.episodes import alive
from forage.ops.optimiser import Optimiser, make_named_optimiser

UNKNOWN_LENGTH = 1000  # steps that are told apart where an environment has no horizon: the authors' for MuJoCo


class Sequence(NamedTuple):
    """The network's input: consecutive steps of one episode."""

    to_go: Float[Array, " steps"]  # the rewards still to come, divided by their scale
    observation: PyTree[Array]  # leaves `steps ...`, normalised
    action: Float[Array, "steps dimensions"]  # as memories hear actions; of the last step it is not looked at
    time: Int[Array, " steps"]  # steps of the episode before
    there: Bool[Array, " steps"]  # where there is such a step: the rest is padding


class SequencePolicy(equinox.Module):
    """A causal transformer from a sequence to the policy's outputs at each of its steps."""

    torso: Torso
    to_go: Linear
    observation: Linear
    action: Linear
    times: Float[Array, "length width"]
    norm: Norm
    transformer: VectorTransformer
    head: Linear
    actions: Actions = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], spec: Spec, shape: TransformerConfig, length: int, style: NetworkConfig):
        keys = jax.random.split(key, 7)
        self.actions = Actions.from_space(spec.action_space)
        self.torso = Torso(keys[0], spec.observation_space, (), style)
        self.to_go = Linear(keys[1], 1, shape.width)
        self.observation = Linear(keys[2], self.torso.size, shape.width)
        self.action = Linear(keys[3], self.actions.outputs, shape.width)
        self.times = jax.random.normal(keys[4], (length, shape.width))
        self.norm = Norm(shape.width)
        self.transformer = VectorTransformer(keys[5], shape, "none")
        self.head = Linear(keys[6], shape.width, self.actions.outputs)

    def __call__(self, told: Sequence, key: Key[Array, ""] | None = None) -> Float[Array, "steps outputs"]:
        """Return the outputs at each observation. `key` draws dropout; `None`: no dropout."""
        time = self.times[jnp.clip(told.time, 0, len(self.times) - 1)]
        parts = (
            self.to_go(told.to_go[:, None]),
            self.observation(self.torso.rows(told.observation)),
            self.action(told.action),
        )
        tokens = self.norm(jnp.stack([part + time for part in parts], axis=1).reshape(-1, time.shape[-1]))
        read = self.transformer(tokens, jnp.repeat(told.there, 3), key)
        return self.head(read[1::3])


class Context(NamedTuple):
    """The agent's memory within an episode: its last steps, the newest at the end."""

    observation: PyTree[Array]  # leaves `context ...`
    action: Float[Array, "context dimensions"]
    earned: Float[Array, " context"]  # rewards of the episode before each step
    total: Float[Array, ""]  # rewards of the episode so far
    time: Int[Array, ""]  # steps of the episode so far


class DecisionTransformerState(NamedTuple):
    network: SequencePolicy
    optimiser: Any
    updates: Int[Array, ""]
    norm: Norms
    scale: Float[Array, ""]  # the data's largest return, by which returns are divided
    best: Float[Array, ""]  # the highest return of a whole episode of the data


class DecisionTransformer(OfflineAgent):
    """Actions from the rewards to come, by a transformer (Chen et al., 2021, arXiv 2106.01345), from a data set.

    `Policy.observe_reward(reward)` tells it after each step what the step paid; evaluation does so by itself.
    """

    example: ClassVar[str] = "forage train decision-transformer CartPole-v1 --data mixed.npz"
    own_choices: ClassVar[str] = "the scale of returns, and five rules that the module's text names"
    ranges: ClassVar[Ranges] = {
        "target_return": Range(),
        "context": Range(1),
        "warmup": Range(1),
        "width": Range(1),
        "layers": Range(1),
        "heads": Range(1),
        "dropout": Range(0, 1, below=True),
        "max_gradient_norm": Range(0, above=True),
        "episode_length": Range(0),
    }

    stochastic: ClassVar[bool] = False
    acting: ClassVar[str] = "network"
    return_conditioned: ClassVar[bool] = True
    unused: ClassVar[Unused] = {"layer_norm": "A decision transformer normalises each block already"}

    target_return: float | None = None  # sum of rewards that it is asked for in each episode; none: the highest of a
    # whole episode of the data
    context: int = equinox.field(static=True, default=20)  # steps that the network reads; more remember longer
    learning_rate: float = 1e-4  # step size of AdamW, as in the authors' code
    warmup: int = equinox.field(static=True, default=10_000)  # updates in which the learning rate rises to its full
    # size, as there
    max_gradient_norm: float = 0.25  # longer gradients are cut to this length, as there
    batch_size: int = equinox.field(static=True, default=64)  # sub-sequences of an update, as there
    width: int = equinox.field(static=True, default=128)  # numbers in a token, as there
    layers: int = equinox.field(static=True, default=3)  # blocks of the transformer, as there
    heads: int = equinox.field(static=True, default=1)  # heads of attention in each, as there
    dropout: float = equinox.field(static=True, default=0.1)  # share of each part of a block that is dropped at random
    # while it learns, as there
    episode_length: int = equinox.field(static=True, default=0)  # steps of an episode that are told apart, later ones
    # count as the last of them; 0: the environment's horizon, or 1000 where it has none
    normalise_observation: bool = equinox.field(
        static=True, default=True
    )  # numbers in observations are standardised by
    # the data set's mean and deviation, as there
    optimiser: str = equinox.field(static=True, default="adamw")

    def check(self, spec: Spec) -> None:
        super().check(spec)
        self.shape.check()

    @property
    def shape(self) -> TransformerConfig:
        return TransformerConfig(self.width, self.layers, self.heads, activation=self.activation, dropout=self.dropout)

    @property
    def segment(self) -> int:
        return self.context

    @property
    def contexts(self) -> bool:
        return True

    @property
    def ranks_episodes(self) -> str:
        return "target_return=NUMBER" if self.target_return is None else ""

    def init(self, key: Key[Array, ""], spec: Spec) -> DecisionTransformerState:
        norm = norms_of(observation_part(spec.observation_space), maps=True) if self.normalise_observation else None
        read = (
            spec
            if norm is None
            else dataclasses.replace(spec, observation_space=input_space(spec.observation_space, norm))
        )
        length = self.episode_length or spec.horizon or UNKNOWN_LENGTH
        network = SequencePolicy(key, read, self.shape, length, NetworkConfig.from_agent(self))
        fresh = self.descent(jnp.int32(0)).init(network)
        return DecisionTransformerState(network, fresh, jnp.int32(0), norm, jnp.float32(1), jnp.float32(0))

    def init_from_dataset(self, state: DecisionTransformerState, data: Experience) -> DecisionTransformerState:
        """Return the state with the data's statistics of returns and observations."""
        assert not isinstance(data.return_to_go, tuple)
        norm = state.norm
        if norm is not None:
            rows = jax.tree.map(lambda x: x[None], split_mask(data.observation)[0])
            norm = update_norms(norm, rows, jnp.ones((1, len(data.reward)), bool))
        best = best_return(data)
        scale = jnp.maximum(jnp.abs(data.return_to_go).max(), 1e-6)
        return state._replace(norm=norm, scale=scale, best=best)

    def descent(self, updates: Int[Array, ""]) -> Optimiser:
        """Return the optimiser with the learning rate of this update."""
        rate = self.learning_rate * jnp.minimum((updates + 1) / self.warmup, 1.0)
        return make_named_optimiser(self.optimiser, rate, self.max_gradient_norm)

    def init_hidden(self, spec: Spec) -> Context:
        """Return an empty context."""

        def many(x: Array) -> Array:
            return jnp.zeros((self.context, *x.shape), x.dtype)

        outputs = Actions.from_space(spec.action_space).outputs
        nothing = jnp.zeros((self.context, outputs)), jnp.zeros(self.context), jnp.zeros(()), jnp.int32(0)
        return Context(jax.tree.map(many, example(spec.observation_space)), *nothing)

    def act(self, state: DecisionTransformerState, inputs: ActInputs) -> tuple[PyTree[Array], Context, PyTree[Array]]:
        def shift_in(old: Array, new: Array) -> Array:
            return jnp.concatenate([old[1:], new[None]])

        hidden = inputs.hidden
        now = Context(
            jax.tree.map(shift_in, hidden.observation, inputs.observation),
            shift_in(hidden.action, jnp.zeros_like(hidden.action[0])),
            shift_in(hidden.earned, hidden.total),
            hidden.total,
            hidden.time + 1,
        )
        outputs = state.network(self.context_inputs(state, now))[-1]
        actions = state.network.actions
        if not actions.discrete:
            return actions.to_box(jnp.tanh(outputs)), now, ()
        choice: Any = actions.distribution(outputs, None, split_mask(inputs.observation)[1])
        return draw_action(choice, inputs), now, ()

    def probabilities(self, state: Any, observation: PyTree[Array], explore: bool) -> Float[Array, " actions"]:
        raise ForageError("A decision transformer's actions depend on what came before, so they have no probabilities.")

    def context_inputs(self, state: DecisionTransformerState, now: Context) -> Sequence:
        """Return the network's input for a context: the target return, less the rewards earned before each step."""
        target = state.best if self.target_return is None else self.target_return
        time = now.time - self.context + jnp.arange(self.context)
        observation = jax.vmap(lambda observation: apply_norm(state.norm, observation))(now.observation)
        return Sequence((target - now.earned) / state.scale, observation, now.action, time, time >= 0)

    def observe_action(self, state: DecisionTransformerState, hidden: Context, action: PyTree[Array]) -> Context:
        return hidden._replace(action=hidden.action.at[-1].set(state.network.actions.action_features(action)))

    def observe_reward(self, state: DecisionTransformerState, hidden: Context, reward: Float[Array, ""]) -> Context:
        return hidden._replace(total=hidden.total + reward)

    def learn(
        self, state: DecisionTransformerState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[DecisionTransformerState, Metrics, Float[Array, " batch"]]:
        experience = batch.experience
        assert not isinstance(experience.return_to_go, tuple) and not isinstance(experience.time, tuple)
        actions = state.network.actions
        told = Sequence(
            experience.return_to_go / state.scale,
            jax.vmap(jax.vmap(lambda observation: apply_norm(state.norm, observation)))(experience.observation),
            jax.vmap(jax.vmap(actions.action_features))(experience.action),
            experience.time,
            alive(experience.ended),
        )
        keys = jax.random.split(key, len(batch.weight))
        weight = told.there * batch.weight

        def error_of(outputs: Array, observation: PyTree[Array], action: PyTree[Array], heard: Array) -> Array:
            """Compute the error between outputs and the action taken."""
            if not actions.discrete:
                return jnp.mean((jnp.tanh(outputs) - heard) ** 2)
            choice: Any = actions.distribution(outputs, None, split_mask(observation)[1])
            return -choice.log_probability(action)

        def loss(network: SequencePolicy) -> tuple[Float[Array, ""], Float[Array, "time batch"]]:
            outputs = jax.vmap(network, in_axes=(1, 0), out_axes=1)(told, keys)
            error = jax.vmap(jax.vmap(error_of))(outputs, experience.observation, experience.action, told.action)
            return (weight * error).sum() / jnp.maximum(weight.sum(), 1e-8), error

        (value, error), gradient = jax.value_and_grad(loss, has_aux=True)(state.network)
        descent = self.descent(state.updates)
        network, optimiser = descent.step(gradient, state.optimiser, state.network)
        state = state._replace(network=network, optimiser=optimiser, updates=state.updates + 1)
        each = (told.there * error).sum(0) / told.there.sum(0)
        return state, {"policy_loss": value}, each
