"""Model-based representations for Q-learning (MR.Q): one agent with one setting for all kinds of tasks.

Fujimoto, D'Oro, Zhang, Tian, Rabbat (2025), "Towards General-Purpose Model-Free Reinforcement Learning", arXiv
2501.16142; numbers as in the authors' code (github.com/facebookresearch/MRQ). An encoder of states z = f(s) and one of
pairs y = g(z, a) learn to predict rewards, the next state's encoding and ends, so that values are nearly linear in y.
Actor and critics know states through them alone, and teach them nothing. Targets, marked ', are copies made every
`target_interval` updates. Then come as many updates of the encoders, each of a batch of its own, and then as many of
critics and actor, one for each step taken, while the encoders stay as they are.

    encoders  sum over k < encoder_horizon, from z_0 = f(s_0), of the means over a batch of
              dynamics_weight (z_{k+1} - f'(s_{k+1}))^2 + reward_weight CE(p_k, two-hot(r_k))
              + terminal_weight (d_k - terminated_k)^2,   (d_k, z_{k+1}, p_k) = M g(z_k, a_k), M linear
    critics   Huber(Q_i(y) - (R + D c' min_j Q'_j(y')) / c),   y' = g'(z', clip(pi'(z') + noise)),   z' = f'(s_n)
    actor     -mean_i Q_i(g(z, pi(z))) + pre_activation_weight u^2,   pi(z) of the numbers u of the last layer

R is the return over `n_step` steps, D what is left of the discount after them (zero after a terminal state) and s_n
what they led to; both end where an episode does, and so do the encoders' sums. c is the mean size of all rewards when
targets were copied, c' what it was the time before. Continuous actions are tanh(u), with Gaussian noise to explore;
numbered ones are one-hot for the encoders, and softmax((u + Gumbel noise) / temperature) for the actor's gradient. To
act, the largest entry of that counts, so that the policy draws its actions, also in evaluation, as the authors' does;
exploring adds noise to it. Bounds and sizes of noise are half as large there, as entries lie in [0, 1].

Otherwise than the authors' code: it never draws what runs into a time limit within the horizon, where here the sum ends
there; its n-step return leaves out a terminal step's reward and counts what follows; of a terminal step within the
horizon it takes the memory's first observation for what followed; its mean size of rewards is over what the memory
holds; pictures are read by the encoder of all our agents. In all else seventeen updates of both agree to rounding. The
paper has the encoders' loss as its equation 14, the critics' as 19 and the actor's as 20; its tables could not be
looked up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core.ports import ActInputs, Agent, Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges, check_order, check_segments
from forage.core.spaces import allowed, observation_part, split_mask
from forage.core.types import Batch, Clock, Experience, Spec
from forage.nn.critics import each_value, stack_modules
from forage.nn.distributions import Actions
from forage.nn.layers import CNN, Activation, Linear, activation, is_large
from forage.nn.networks import NetworkConfig, Torso
from forage.ops import returns
from forage.ops.episodes import alive
from forage.ops.every import run_if, shared_by_seeds
from forage.ops.optimiser import Optimiser, make_named_optimiser
from forage.ops.rows import merge_time, standardise_rows, weighted_mean
from forage_papers.ops.shift import shift_picture
from forage_papers.ops.two_hot import symexp, two_hot


def glorot(key: Key[Array, ""], inputs: int, outputs: int) -> Linear:
    """Return a layer with weights uniform in +-sqrt(12 / (inputs + outputs)) and a bias of zero.

    Glorot and Bengio (2010), "Understanding the difficulty of training deep feedforward neural networks", with the gain
    sqrt(2) of rectified units.
    """
    bound = math.sqrt(12 / (inputs + outputs))
    weight = jax.random.uniform(key, (inputs, outputs), minval=-bound, maxval=bound)
    return equinox.tree_at(lambda n: (n.weight, n.bias), Linear(key, inputs, outputs), (weight, jnp.zeros(outputs)))


class Dense(equinox.Module):
    """Linear layers, each but the last normalised and then activated."""

    layers: tuple[Linear, ...]
    activation: str | Activation = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], sizes: Sequence[int], activation: str | Activation):
        keys = jax.random.split(key, len(sizes) - 1)
        self.layers = tuple(glorot(k, i, o) for k, i, o in zip(keys, sizes[:-1], sizes[1:], strict=True))
        self.activation = activation

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        for layer in self.layers[:-1]:
            x = self.activate(layer(x))
        return self.layers[-1](x)

    def activate(self, x: Float[Array, "*batch size"]) -> Float[Array, "*batch size"]:
        return activation(self.activation)(standardise_rows(x, 1e-5))


class Foresight(NamedTuple):
    """The predictions from a state's encoding and an action."""

    terminal: Float[Array, " batch"]  # 1: the task is over
    state: Float[Array, "batch latent"]  # encoding of what follows
    reward: Float[Array, "batch bins"]  # logits of its two-hot shares


class Encoder(equinox.Module):
    """Encoders of states and of pairs of state and action, and the heads that predict from them.

    A picture goes through the convolutions and one layer, anything else through two hidden layers and another one.
    """

    torso: Torso
    state: Dense
    action: Linear
    pair: Dense
    model: Linear
    shift: int = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], spec: Spec, agent: MRQ):
        keys = jax.random.split(key, 5)
        space, hidden, latent = observation_part(spec.observation_space), (agent.hidden_size,) * 2, agent.latent_size
        style = NetworkConfig(agent.activation, False, agent.encoder)
        self.torso = Torso(keys[0], spec.observation_space, (), style, dense=False)
        convolves = isinstance(self.torso.body, CNN)
        self.state = Dense(keys[1], (self.torso.size, *(() if convolves else hidden), latent), agent.activation)
        self.action = glorot(keys[2], Actions.from_space(spec.action_space).outputs, agent.action_size)
        self.pair = Dense(keys[3], (latent + agent.action_size, *hidden, latent), agent.activation)
        self.model = glorot(keys[4], latent, 1 + latent + agent.bins)
        self.shift = agent.pixel_shift if convolves and is_large(space) else 0

    def states(self, observations: PyTree[Array], key: Key[Array, ""] | None = None) -> Float[Array, "rows latent"]:
        """Encode many observations (leaves `rows ...`); with a key, large pictures are shifted at random."""
        if self.shift and key is not None:
            observations = self.shift_images(split_mask(observations)[0], key)
        return self.state.activate(self.state(self.torso.rows(observations)))

    def shift_images(self, images: Array, key: Key[Array, ""]) -> Array:
        """Shift each picture by up to `shift` pixels each way, repeating its border."""
        assert isinstance(self.torso.body, CNN)
        axes = self.torso.body.picture.axes
        by = self.shift - jax.random.randint(key, (len(images), 2), 0, 2 * self.shift + 1)
        return jax.vmap(lambda image, by: shift_picture(image, by, axes))(images, by)

    def pairs(
        self, states: Float[Array, "rows latent"], actions: Float[Array, "rows dimensions"]
    ) -> Float[Array, "rows latent"]:
        """Encode encoded states together with actions."""
        told = activation(self.pair.activation)(self.action(actions))
        return self.pair(jnp.concatenate([states, told], axis=1))

    def foresee(self, states: Float[Array, "rows latent"], actions: Float[Array, "rows dimensions"]) -> Foresight:
        told = self.model(self.pairs(states, actions))
        latent = states.shape[1]
        return Foresight(told[:, 0], told[:, 1 : 1 + latent], told[:, 1 + latent :])


class EncodedActor(equinox.Module):
    """The policy of encoded states."""

    body: Dense
    actions: Actions = equinox.field(static=True)
    temperature: float = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], spec: Spec, agent: MRQ):
        self.actions, self.temperature = Actions.from_space(spec.action_space), agent.temperature
        sizes = (agent.latent_size, agent.hidden_size, agent.hidden_size, self.actions.outputs)
        self.body = Dense(key, sizes, agent.policy_activation)

    def __call__(
        self, states: Float[Array, "rows latent"], mask: Bool[Array, "rows actions"] | None, key: Key[Array, ""]
    ) -> tuple[Float[Array, "rows outputs"], Float[Array, "rows outputs"]]:
        """Return actions, numbered ones as shares, and the numbers before tanh or softmax. `key`: for Gumbel noise."""
        before = self.body(states)
        if not self.actions.discrete:
            return jnp.tanh(before), before
        logits = before if mask is None else jnp.where(jax.vmap(allowed)(mask), before, -1e9)
        noise = jax.random.gumbel(key, before.shape)
        return jax.nn.softmax((logits + noise) / self.temperature), before

    def project_action(
        self, action: Float[Array, "rows outputs"], mask: Bool[Array, "rows actions"] | None
    ) -> Float[Array, "rows outputs"]:
        """Project noisy actions to valid ones: clipped to the bounds, or a one-hot vector of an allowed action."""
        if not self.actions.discrete:
            return jnp.clip(action, -1.0, 1.0)
        action = action if mask is None else jnp.where(jax.vmap(allowed)(mask), action, -jnp.inf)
        return jax.nn.one_hot(jnp.argmax(action, axis=1), action.shape[1])

    @property
    def reach(self) -> float:
        """Return the factor by which the noise options are multiplied."""
        return 0.5 if self.actions.discrete else 1.0


class Critic(equinox.Module):
    """The value of encoded pairs, over the mean size of rewards."""

    body: Dense
    head: Linear

    def __init__(self, key: Key[Array, ""], agent: MRQ):
        body_key, head_key = jax.random.split(key)
        self.body = Dense(body_key, (agent.latent_size, *(agent.hidden_size,) * 3), agent.activation)
        self.head = glorot(head_key, agent.hidden_size, 1)

    def __call__(self, pairs: Float[Array, "rows latent"]) -> Float[Array, " rows"]:
        return self.head(self.body.activate(self.body(pairs)))[:, 0]


class Networks(NamedTuple):
    """All networks with a target copy."""

    encoder: Encoder
    actor: EncodedActor
    critics: Critic  # leaves [2, ...]


class Tally(NamedTuple):
    """Statistics of all transitions so far."""

    reward: Float[Array, ""]  # mean size
    count: Float[Array, ""]  # of transitions; 0: only batches were seen, and they stand in
    ends: Bool[Array, ""]  # tasks end here


class MRQState(NamedTuple):
    encoder: Encoder
    actor: EncodedActor
    critics: Critic  # leaves [2, ...]
    target: Networks
    encoder_optimiser: Any
    actor_optimiser: Any
    critic_optimiser: Any
    scale: Float[Array, ""]  # c: what values are divided by
    target_scale: Float[Array, ""]  # c': what the targets' values are divided by
    tally: Tally
    drawn: Tally  # the same of batches alone
    updates: Int[Array, ""]  # of all kinds


def add_transitions(tally: Tally, experience: Experience) -> Tally:
    """Return a tally that knows more transitions, too."""
    number = experience.counts.sum().astype(jnp.float32)
    count = tally.count + number
    total = jnp.sum(jnp.where(experience.counts, jnp.abs(experience.reward), 0.0))
    reward = tally.reward + (total - number * tally.reward) / jnp.maximum(count, 1.0)
    return Tally(reward, count, tally.ends | jnp.any(experience.terminated & experience.counts))


class MRQ(Agent):
    """Model-based representations for Q-learning (Fujimoto et al., 2025, arXiv 2501.16142).

    It has one setting for vectors and pictures, numbered and continuous actions. Where it learns from a data set alone,
    the mean size of rewards and whether tasks end are those of the batches so far.
    """

    example: ClassVar[str] = "forage train mr-q Pendulum-v1 --learning-starts 1000 --steps 10k"
    ranges: ClassVar[Ranges] = {
        "encoder_learning_rate": Range(0),
        "dynamics_weight": Range(0),
        "reward_weight": Range(0),
        "terminal_weight": Range(0),
        "encoder_horizon": Range(1),
        "target_interval": Range(1),
        "bins": Range(2),
        "lowest_exponent": Range(),
        "highest_exponent": Range(),
        "action_size": Range(1),
        "hidden_size": Range(1),
        "temperature": Range(0, above=True),
        "pre_activation_weight": Range(0),
        "pixel_shift": Range(0),
    }

    on_policy: ClassVar[bool] = False
    acting: ClassVar[str] = "actor"
    usual_memory: ClassVar[str] = "lap"
    needs: ClassVar[Needs] = Needs(actions="numbered or bounded", observations="any")

    learning_rate: float = 3e-4
    encoder_learning_rate: float = 1e-4  # step size of the encoders' optimiser; larger learns faster, and diverges
    # sooner
    discount: float = 0.99
    max_gradient_norm: float = 20.0  # longer gradients of the critics are cut to this length; smaller makes more
    # cautious steps
    exploration_noise: float = 0.2  # standard deviation of the noise on actions, in the unit box; larger explores more
    target_noise: float = 0.2  # standard deviation of target policy smoothing, in the unit box; larger smooths target
    # values more
    target_noise_clip: float = 0.3  # bound of that noise, in the unit box; larger smooths target values more widely
    dynamics_weight: float = 1.0  # weight of the next state's encoding in the encoders' loss
    reward_weight: float = 0.1  # weight of the reward's cross-entropy in the encoders' loss
    terminal_weight: float = 0.1  # weight of the squared error of ends in the encoders' loss, once one was met
    pre_activation_weight: float = 1e-5  # weight of the squared numbers before tanh or softmax in the actor's loss;
    # larger keeps actions from their bounds
    num_envs: int = equinox.field(static=True, default=1)
    rollout_length: int = equinox.field(static=True, default=1)
    updates_per_rollout: int = equinox.field(static=True, default=1)  # updates of critics and actor after each rollout;
    # there are as many of the encoders, in bursts
    batch_size: int = equinox.field(static=True, default=256)
    learning_starts: int = equinox.field(static=True, default=10_000)
    target_interval: int = equinox.field(static=True, default=250)  # updates of critics and actor between two copies of
    # the targets, each of which is followed by as many updates of the encoders
    encoder_horizon: int = equinox.field(static=True, default=5)  # steps that the encoders predict ahead
    n_step: int = equinox.field(static=True, default=3)
    bins: int = equinox.field(static=True, default=65)  # points that rewards are shares of
    lowest_exponent: float = equinox.field(static=True, default=-10.0)  # the lowest point, before symexp
    highest_exponent: float = equinox.field(static=True, default=10.0)  # the highest point, before symexp
    latent_size: int = equinox.field(static=True, default=512)  # numbers in the encoding of a state, and of a pair
    action_size: int = equinox.field(static=True, default=256)  # numbers in the encoding of an action
    hidden_size: int = equinox.field(static=True, default=512)  # units of each hidden layer of all networks
    activation: str | Callable[[Any], Any] = equinox.field(static=True, default="elu")
    policy_activation: str | Callable[[Any], Any] = equinox.field(static=True, default="relu")  # function between the
    # actor's layers
    encoder: str | type | None = equinox.field(static=True, default=None)
    optimiser: str | Callable[[Any], Any] = equinox.field(static=True, default="adamw")
    temperature: float = equinox.field(static=True, default=10.0)  # divides the logits of numbered actions; larger
    # makes them more alike for the encoders
    pixel_shift: int = equinox.field(static=True, default=4)  # pixels by which pictures of 64 pixels and more are
    # shifted at random, each way, where networks learn; 0: none

    def __check_init__(self):
        check_order(self, "lowest_exponent", "highest_exponent")

    @property
    def segment(self) -> int:
        return max(self.encoder_horizon, self.n_step)

    def check(self, spec: Spec) -> None:
        check_segments(self)

    def init(self, key: Key[Array, ""], spec: Spec) -> MRQState:
        keys = jax.random.split(key, 3)
        encoder, actor = Encoder(keys[0], spec, self), EncodedActor(keys[1], spec, self)
        critics = stack_modules(lambda k: Critic(k, self), keys[2])
        nothing = Tally(jnp.float32(0), jnp.float32(0), jnp.bool_(False))
        return MRQState(
            encoder,
            actor,
            critics,
            jax.tree.map(jnp.copy, Networks(encoder, actor, critics)),
            self.encoder_descent().init(encoder),
            self.descent().init(actor),
            self.critic_descent().init(critics),
            scale=jnp.float32(1),
            target_scale=jnp.float32(0),
            tally=nothing,
            drawn=nothing,
            updates=jnp.int32(0),
        )

    def descent(self) -> Optimiser:
        return make_named_optimiser(self.optimiser, self.learning_rate)

    def critic_descent(self) -> Optimiser:
        return make_named_optimiser(self.optimiser, self.learning_rate, self.max_gradient_norm)

    def encoder_descent(self) -> Optimiser:
        return make_named_optimiser(self.optimiser, self.encoder_learning_rate)

    def points(self) -> Float[Array, " bins"]:
        """Return the points that rewards are shares of."""
        return symexp(jnp.linspace(self.lowest_exponent, self.highest_exponent, self.bins))

    def act(self, state: MRQState, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        noise = inputs.noise
        row = jax.tree.map(lambda x: x[None], inputs.observation)
        mask, actor = split_mask(row)[1], state.actor
        noise_key, gumbel_key = jax.random.split(inputs.key)
        action, _ = actor(state.encoder.states(row), mask, gumbel_key)
        if inputs.explore:
            noise = jax.random.normal(noise_key, action.shape[1:]) if noise is None else noise
            action = action + actor.reach * self.exploration_noise * noise
        action = actor.project_action(action, mask)[0]
        if actor.actions.discrete:
            return jnp.argmax(action).astype(jnp.int32), inputs.hidden, ()
        return actor.actions.to_box(action), inputs.hidden, ()

    def noise(self, spec: Spec) -> tuple[int, ...] | None:
        actions = Actions.from_space(spec.action_space)
        return None if actions.discrete else (actions.outputs,)

    def action_values(
        self, state: MRQState, hidden: PyTree[Array], observation: PyTree[Array]
    ) -> Float[Array, " actions"] | None:
        if not state.actor.actions.discrete:
            return None
        each = jnp.eye(state.actor.actions.outputs)
        states = state.encoder.states(jax.tree.map(lambda x: x[None], observation))
        pairs = state.encoder.pairs(jnp.broadcast_to(states, (len(each), states.shape[1])), each)
        return state.scale * each_value(state.critics, pairs).mean(0)

    def observe(self, state: MRQState, rollout: Experience) -> MRQState:
        return state._replace(tally=add_transitions(state.tally, rollout))

    def num_updates(self, state: MRQState) -> Int[Array, ""]:
        interval, updates = self.target_interval, self.updates_per_rollout
        place = self.place(state)
        # A burst that was left off, as by a run that goes on from a data set, is finished first.
        unfinished = jnp.where((place > 0) & (place < interval), interval - place, 0)
        left = jnp.where(place == 0, 0, jnp.minimum(2 * interval - place, interval))
        bursts = -(-jnp.maximum(updates - left, 0) // interval)
        return unfinished + updates + interval * bursts

    def place(self, state: MRQState) -> Int[Array, ""]:
        """Return the number of updates since targets were copied, which is the same for all seeds that run together."""
        return shared_by_seeds(state.updates) % (2 * self.target_interval)

    def learn(
        self, state: MRQState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[MRQState, Metrics, Float[Array, " batch"]]:
        experience = batch.experience
        action = jax.vmap(jax.vmap(state.actor.actions.action_features))(experience.action)
        state = state._replace(drawn=add_transitions(state.drawn, experience))
        place = self.place(state)
        state = self.update_targets(state, place == 0)
        encodes = place < self.target_interval
        told = jnp.zeros((3,)), jnp.zeros((3,)), jnp.zeros(action.shape[1])

        # Encoders
        def encode(carry: Any) -> Any:
            encoder, optimiser, _ = carry
            gradient, parts = jax.grad(self.encoder_loss, has_aux=True)(
                encoder, state, experience, action, batch.weight, key
            )
            return *self.encoder_descent().step(gradient, optimiser, encoder), parts

        encoder, encoder_optimiser, parts = run_if(encodes, encode, (state.encoder, state.encoder_optimiser, told[0]))
        state = state._replace(encoder=encoder, encoder_optimiser=encoder_optimiser)

        # Critics and actor
        moved = state.actor, state.critics, state.actor_optimiser, state.critic_optimiser
        turn = lambda carry: self.improve(carry[0], state, experience, action, batch.weight, key)  # noqa: E731
        moved, found, error = run_if(~encodes, turn, (moved, *told[1:]))
        actor, critics, actor_optimiser, critic_optimiser = moved
        state = state._replace(
            actor=actor, critics=critics, actor_optimiser=actor_optimiser, critic_optimiser=critic_optimiser
        )

        # Half of the updates are of each kind: twice each number, so that the means over all are right.
        names = ("dynamics_loss", "reward_loss", "terminal_loss", "critic_loss", "actor_loss", "value")
        metrics = dict(zip(names, 2 * jnp.concatenate([parts, found]), strict=True)) | {"reward_scale": state.scale}
        return state._replace(updates=state.updates + 1), metrics, jnp.where(encodes, jnp.nan, error)

    def update_targets(self, state: MRQState, due: Bool[Array, ""]) -> MRQState:
        """Copy the networks to their targets and update the scale of rewards, if they are due."""
        networks = Networks(state.encoder, state.actor, state.critics)
        target = run_if(due, lambda _: networks, state.target)
        known = jnp.where(state.tally.count > 0, state.tally.reward, state.drawn.reward)
        return state._replace(
            target=target,
            scale=jnp.where(due, jnp.maximum(known, 1e-8), state.scale),
            target_scale=jnp.where(due, state.scale, state.target_scale),
        )

    def encoder_loss(
        self,
        encoder: Encoder,
        state: MRQState,
        experience: Experience,
        action: Float[Array, "time batch dimensions"],
        weight: Float[Array, " batch"],
        key: Key[Array, ""],
    ) -> tuple[Float[Array, ""], Float[Array, " 3"]]:
        """Compute the loss of predictions along each segment, to its episode's end; and its parts, unweighted."""
        horizon = self.encoder_horizon
        now, after = (
            jax.tree.map(lambda x: x[:horizon], x) for x in (experience.observation, experience.next_observation)
        )
        rows = merge_time(after)
        now_key, after_key = jax.random.split(key)
        target = state.target.encoder.states(rows, after_key).reshape(horizon, action.shape[1], -1)
        reward, terminated = experience.reward[:horizon], experience.terminated[:horizon]
        mask = jnp.where(alive(experience.ended[:horizon]) & experience.counts[:horizon], weight, 0.0)
        ends = jnp.where(state.tally.count > 0, state.tally.ends, state.drawn.ends)
        points = self.points()

        def step(states: Array, now: Any) -> tuple[Array, Array]:
            action, target, reward, terminated, mask = now
            seen = encoder.foresee(states, action)
            dynamics = jnp.mean((seen.state - target) ** 2, axis=1)
            of_reward = -jnp.sum(two_hot(reward, points) * jax.nn.log_softmax(seen.reward), axis=1)
            terminal = jnp.where(ends, (seen.terminal - terminated) ** 2, 0.0)
            return seen.state, jnp.mean(mask * jnp.stack([dynamics, of_reward, terminal]), axis=1)

        first = encoder.states(jax.tree.map(lambda x: x[0], now), now_key)
        _, each = jax.lax.scan(step, first, (action[:horizon], target, reward, terminated, mask))
        parts = each.sum(0)
        return parts @ jnp.stack([self.dynamics_weight, self.reward_weight, self.terminal_weight]), parts

    def improve(
        self,
        moved: tuple[EncodedActor, Critic, Any, Any],
        state: MRQState,
        experience: Experience,
        action: Float[Array, "time batch dimensions"],
        weight: Float[Array, " batch"],
        key: Key[Array, ""],
    ) -> tuple[tuple[EncodedActor, Critic, Any, Any], Float[Array, " 3"], Float[Array, " batch"]]:
        """Take a step of the critics, then one of the actor; return both losses, the value and each one's error."""
        actor, critics, actor_optimiser, critic_optimiser = moved
        keys, counts = jax.random.split(key, 3), experience.counts[0]
        observation = jax.tree.map(lambda x: x[0], experience.observation)
        states = state.encoder.states(observation, keys[0])
        goal = self.goal(state, experience, keys[1])
        pairs = state.encoder.pairs(states, action[0])

        def critic_loss(critics: Critic) -> tuple[Array, tuple[Array, Array, Array]]:
            values = each_value(critics, pairs)
            loss = jnp.mean(weight * counts * optax.huber_loss(values, goal))
            return loss, (loss, jnp.abs(values - goal).max(0), values.mean())

        gradient, (loss, error, value) = jax.grad(critic_loss, has_aux=True)(critics)
        critics, critic_optimiser = self.critic_descent().step(gradient, critic_optimiser, critics)

        def actor_loss(actor: EncodedActor) -> tuple[Array, Array]:
            taken, before = actor(states, split_mask(observation)[1], keys[2])
            values = each_value(critics, state.encoder.pairs(states, taken)).mean(0)
            loss = weighted_mean(self.pre_activation_weight * jnp.mean(before**2, axis=1) - values, counts)
            return loss, loss

        gradient, of_actor = jax.grad(actor_loss, has_aux=True)(actor)
        actor, actor_optimiser = self.descent().step(gradient, actor_optimiser, actor)
        found = jnp.stack([loss, of_actor, state.scale * value])
        return (actor, critics, actor_optimiser, critic_optimiser), found, error * counts

    def goal(self, state: MRQState, experience: Experience, key: Key[Array, ""]) -> Float[Array, " batch"]:
        """Compute the value targets of the critics: (R + D c' min_j Q'_j) / c."""
        total, _, left, after = returns.fold_segments(experience, self.n_step, self.discount)
        mask, (shift_key, gumbel_key, noise_key) = split_mask(after)[1], jax.random.split(key, 3)
        target = state.target
        states = target.encoder.states(after, shift_key)
        action, _ = target.actor(states, mask, gumbel_key)
        bound = target.actor.reach * self.target_noise_clip
        noise = target.actor.reach * self.target_noise * jax.random.normal(noise_key, action.shape)
        action = target.actor.project_action(action + jnp.clip(noise, -bound, bound), mask)
        value = each_value(target.critics, target.encoder.pairs(states, action)).min(0)
        return (total + left * state.target_scale * value) / state.scale
