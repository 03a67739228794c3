"""Deep Q-learning, with the options that became usual.

Mnih et al. (2015), "Human-level control through deep reinforcement learning", Nature 518. From replayed transitions,
with target network Q', minimises the Huber loss (threshold 1) of Q(s_t, a_t) against

    r_t + ... + discount^(n-1) r_{t+n-1} + discount^n max_a Q'(s_{t+n}, a)        (nothing after a terminal state)

- `double`: Q'(s, argmax_a Q(s, a)) in place of the maximum (van Hasselt, Guez, Silver, 2015, arXiv 1509.06461).
- `dueling`: Q(s, a) = V(s) + A(s, a) - mean_b A(s, b) (Wang et al., 2016, arXiv 1511.06581).
- `n_step`: longer returns, uncorrected for exploration (Hessel et al., 2017, "Rainbow", arXiv 1710.02298).
- `gru_size`: a GRU, or with `cell` lstm an LSTM, which hears the action before as well, learned from replayed
  sequences that start from the hidden state stored with them and a burn-in without gradient (Kapturowski et al., 2019,
  "Recurrent Experience Replay in Distributed Reinforcement Learning", R2D2, ICLR; there it hears the reward before
  too).
- `bins`: values are histograms, and the loss is the cross-entropy of the one about the target, HL-Gauss, in place of
  Huber's (Farebrother et al., 2024, "Stop Regressing", arXiv 2403.03950).
- `noisy`: noise in the weights of the last layers, learned with them (`nn/noisy.py` has paper and formula).
- `recycle_interval`: units that hardly say anything begin anew (ReDo; `nn/dormant.py` has paper and formula).

Prioritised replay is a matter of the memory: the errors returned are what it asks for, its weights multiply the loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core.ports import ActInputs, Agent, Metrics, State
from forage.core.ports.needs import Choices, Needs
from forage.core.ranges import Range, Ranges, check_order, check_segments
from forage.core.spaces import split_mask
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage.nn.critics import Bins
from forage.nn.distributions import Actions
from forage.nn.dormant import NextLayer, Units, recycle_units, share_dormant, units_of
from forage.nn.networks import CELLS, GRU, MLP, GRUState, NetworkConfig, Torso, check_cell
from forage.nn.noisy import draw_noise, make_noisy
from forage.ops import returns
from forage.ops.action_values import best_action, take_values, update_target
from forage.ops.every import run_every
from forage.ops.losses import LossReport, loss_gradient
from forage.ops.optimiser import Optimiser, make_named_optimiser, reset_entries


class QNetwork(equinox.Module):
    """Values of all actions: torso, optional GRU, and one head, or one for A and one for V.

    Orthogonal weights: smaller ones leave the actions' values so alike at first that an agent with memory stays there.
    """

    torso: Torso
    gru: GRU | None
    advantage: MLP  # all of Q when there is no `state_value`
    state_value: MLP | None
    actions: Actions = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], spec: Spec, agent: Any, numbers: int = 1):
        """`agent`: DQN, or another with its options; `numbers`: outputs for each action."""
        keys = jax.random.split(key, 4)
        self.torso = Torso(
            keys[0], spec.observation_space, agent.hidden_sizes, NetworkConfig.from_agent(agent), gain=2**0.5
        )
        size = self.torso.size
        self.actions = Actions.from_space(spec.action_space)
        actions = self.actions.outputs
        self.gru = CELLS[agent.cell](keys[1], size, actions, agent.gru_size) if agent.gru_size else None
        size = agent.gru_size or size
        stream = (size, size) if agent.dueling else (size,)  # each stream has a layer of its own before it ends
        self.advantage = MLP(keys[2], (*stream, actions * numbers), agent.activation, 2**0.5, 1.0)
        self.state_value = MLP(keys[3], (*stream, numbers), agent.activation, 2**0.5, 1.0) if agent.dueling else None
        if getattr(agent, "noisy", False):
            noisy = [jax.random.fold_in(key, number) for number in (2, 3)]
            self.advantage = make_noisy(self.advantage, noisy[0], agent.initial_noise)
            if self.state_value is not None:
                self.state_value = make_noisy(self.state_value, noisy[1], agent.initial_noise)

    def units(self, observations: PyTree[Array]) -> list[Units]:
        """Return the units of all layers but the last, of many observations, of an agent without memory."""
        streams = [("advantage", self.advantage)]
        streams += [("state_value", self.state_value)] if self.state_value else []
        outputs = jax.vmap(self.torso.activations)(observations)
        heads = tuple(NextLayer(lambda n, name=name: getattr(n, name).layers[0]) for name, _ in streams)
        found = units_of(self.torso.body, outputs, lambda n: n.torso.body, heads)
        features = self.torso.rows(observations)
        for name, stream in streams:
            found += units_of(stream, stream.activations(features), lambda n, name=name: getattr(n, name))
        return found

    def q(self, features: Float[Array, " features"]) -> Float[Array, " actions"]:
        features = features if self.gru is None else self.gru.output(features)
        advantage = self.advantage(features)
        if self.state_value is None:
            return advantage
        return self.state_value(features) + advantage - advantage.mean()

    def __call__(self, observation: PyTree[Array]) -> Float[Array, " actions"]:
        return self.q(self.torso(observation))

    def rows(self, observations: PyTree[Array]) -> Float[Array, "rows actions"]:
        """Q of many observations (leaves `rows ...`), of an agent without memory."""
        return jax.vmap(self.q)(self.torso.rows(observations))

    def sequence(
        self, experience: Experience, burn_in: int
    ) -> tuple[Float[Array, "time batch actions"], Float[Array, "time batch actions"]]:
        """Compute Q after the burn-in: at each observation and, as if the episode continued, at each next one."""
        assert self.gru is not None
        step, inputs = jax.vmap(self.gru.step), jax.vmap(jax.vmap(lambda o, a: self.gru.hear(self.torso(o), a)))

        def forward(hidden: Array, now: tuple[Array, Array]):
            x, ended = now
            features = step(hidden, x)
            return jnp.where(ended[:, None], 0.0, features), features

        before = jax.tree.map(lambda x: x[:burn_in], experience)
        after = jax.tree.map(lambda x: x[burn_in:], experience)
        hidden = experience.policy_info.features[0]
        if burn_in:
            hidden, _ = jax.lax.scan(
                forward, hidden, (inputs(before.observation, before.policy_info.action), before.ended)
            )
        heard = inputs(after.observation, after.policy_info.action)
        _, features = jax.lax.scan(forward, jax.lax.stop_gradient(hidden), (heard, after.ended))
        taken = jax.vmap(jax.vmap(self.actions.action_features))(after.action)
        next_features = jax.vmap(step)(features, inputs(after.next_observation, taken))
        q = jax.vmap(jax.vmap(self.q))
        return q(features), q(next_features)


class ReturnNetwork(QNetwork):
    """`QNetwork` with several numbers for each action; the subclass computes `q` from them."""

    numbers: int = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], spec: Spec, agent: Any, numbers: int):
        super().__init__(key, spec, agent, numbers)
        self.numbers = numbers

    def spread(self, features: Float[Array, " features"]) -> Float[Array, "actions numbers"]:
        """Return the numbers of all actions; with two streams, those of the state and of each action are added."""
        advantage = self.advantage(features).reshape(-1, self.numbers)
        if self.state_value is None:
            return advantage
        return self.state_value(features) + advantage - advantage.mean(0)

    def value(self, spread: Float[Array, "*batch actions numbers"]) -> Float[Array, "*batch actions"]:
        """Compute the mean return of each action."""
        raise NotImplementedError

    def q(self, features: Float[Array, " features"]) -> Float[Array, " actions"]:
        return self.value(self.spread(features))

    def spreads(self, observations: PyTree[Array]) -> Float[Array, "rows actions numbers"]:
        """Return the numbers of many observations (leaves `rows ...`)."""
        return jax.vmap(self.spread)(self.torso.rows(observations))


class HistogramNetwork(ReturnNetwork):
    """Histograms of the value of all actions, as logits."""

    bins: Bins = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], spec: Spec, agent: Any, bins: Bins):
        super().__init__(key, spec, agent, bins.number)
        self.bins = bins

    def value(self, spread: Float[Array, "*batch actions numbers"]) -> Float[Array, "*batch actions"]:
        return self.bins.value(spread)


class DQNState(NamedTuple):
    network: QNetwork
    target: QNetwork
    optimiser: Any
    updates: Int[Array, ""]


class DQN(Agent):
    """Deep Q-learning (Mnih et al., 2015, Nature 518): double, dueling, n-step, recurrent, with action masks.

    The defaults are for small tasks: with epsilon-greedy behaviour they solve CartPole-v1 in 150,000 steps and
    Acrobot-v1 in 100,000. It takes the dueling streams, the five-step returns and the falling learning rate: without
    them, some seeds forget CartPole again.
    """

    example: ClassVar[str] = "forage train dqn CartPole-v1"
    choices: ClassVar[Choices] = {"cell": tuple(CELLS)}
    ranges: ClassVar[Ranges] = {
        "bins": Range(0),
        "lowest_value": Range(),
        "highest_value": Range(),
        "recycle_interval": Range(0),
        "dormant_threshold": Range(0),
        "initial_noise": Range(0),
    }

    on_policy: ClassVar[bool] = False
    usual_behaviour: ClassVar[str] = "epsilon-greedy"
    signatures: ClassVar[dict[str, str]] = Agent.signatures | {"loss": "network, target, batch, key"}

    """Reason not to recycle dormant units of this agent's network; empty if they may be recycled."""
    needs: ClassVar[Needs] = Needs(actions="numbered", observations="any")

    # A `State` below is a `DQNState`, or that of an agent built on this one, which may have another optimiser.

    learning_rate: float = 5e-4
    final_learning_rate: float = 0.0  # reached linearly at the end of the run, as a share of learning_rate
    discount: float = 0.99
    target_rate: float = 1.0  # how far each target update goes towards the network; below 1: Polyak averaging
    max_gradient_norm: float = 10.0
    num_envs: int = equinox.field(static=True, default=1)
    rollout_length: int = equinox.field(static=True, default=4)
    updates_per_rollout: int = equinox.field(static=True, default=1)
    batch_size: int = equinox.field(static=True, default=128)
    learning_starts: int = equinox.field(static=True, default=1000)
    target_update_interval: int = equinox.field(static=True, default=500)  # environment steps between two updates of
    # the target network; more are steadier and slower
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(64, 64))
    activation: str | Callable[[Any], Any] = equinox.field(static=True, default="relu")
    layer_norm: bool = equinox.field(static=True, default=False)
    encoder: str | type | None = equinox.field(static=True, default=None)
    optimiser: str | Callable[[Any], Any] = equinox.field(static=True, default="adam")
    double: bool = equinox.field(static=True, default=True)
    dueling: bool = equinox.field(static=True, default=True)
    n_step: int = equinox.field(static=True, default=5)
    gru_size: int = equinox.field(static=True, default=0)  # units of the memory, a GRU or an LSTM; 0: none
    cell: str = equinox.field(static=True, default="gru")  # the memory of an agent with gru_size: gru or lstm
    burn_in: int = equinox.field(static=True, default=10)  # steps of each sequence that only warm up the GRU
    unroll: int = equinox.field(static=True, default=20)  # steps of each sequence that are learned from
    bins: int = equinox.field(static=True, default=0)  # bins of values that are histograms; 0: values are numbers
    lowest_value: float = equinox.field(static=True, default=-100.0)  # lower end of the histograms, a sum of discounted
    # rewards
    highest_value: float = equinox.field(static=True, default=100.0)  # upper end of the histograms
    recycle_interval: int = equinox.field(static=True, default=0)  # updates after which dormant units begin anew
    # (ReDo); 0: never
    dormant_threshold: float = 0.025  # share of its layer's mean activation up to which a unit is dormant
    count_dormant: bool = equinox.field(static=True, default=False)  # report the share of dormant units as `dormant`
    noisy: bool = equinox.field(static=True, default=False)  # the last layers, or the streams, have noise in their
    # weights, drawn for each action and update; explores with `--behaviour policy`
    initial_noise: float = equinox.field(static=True, default=0.5)  # deviation of a noisy layer's noise at first, times
    # the root of its inputs; the authors' (sigma_0)

    def __check_init__(self):
        if self.noisy and (self.recycle_interval or self.count_dormant):
            raise ForageError(
                "Dormant units are not looked for in noisy layers; leave out noisy, or recycle_interval and "
                "count_dormant."
            )
        if self.bins:
            check_order(self, "lowest_value", "highest_value")
        if self.bins and self.gru_size:
            raise ForageError("An agent with memory has no histograms of values yet; leave bins or gru_size out.")
        if self.bins and not (type(self).loss is DQN.loss and type(self).values is DQN.values):
            raise ForageError(f"{type(self).__name__} has values of its own kind; leave bins out, or take dqn.")

    @property
    def window(self) -> tuple[int, int]:
        """Return the number of burn-in steps of a segment, and the number of steps learned from."""
        return (self.burn_in, self.unroll) if self.gru_size else (0, 1)

    @property
    def segment(self) -> int:
        return sum(self.window) + self.n_step - 1

    def check(self, spec: Spec) -> None:
        check_cell(self)
        if (self.recycle_interval or self.count_dormant) and (self.gru_size or self.joint):
            raise ForageError(
                f"Dormant units are looked for in {type(self).__name__} without memory and with one agent alone; leave "
                f"out recycle_interval and count_dormant{', or gru_size' if self.gru_size else ', or take dqn'}."
            )
        check_segments(self)

    def init(self, key: Key[Array, ""], spec: Spec) -> State:
        network = self.network(key, spec)
        return DQNState(network, jax.tree.map(jnp.copy, network), self.descent(1.0).init(network), jnp.int32(0))

    def network(self, key: Key[Array, ""], spec: Spec) -> QNetwork:
        """Make the network of action values."""
        if self.bins:
            return HistogramNetwork(key, spec, self, Bins(self.bins, self.lowest_value, self.highest_value))
        return QNetwork(key, spec, self)

    def init_hidden(self, spec: Spec) -> PyTree[Array]:
        if not self.gru_size:
            return ()
        return GRUState.from_agent(self, Actions.from_space(spec.action_space).outputs)

    def descent(self, learning_rate: Any) -> Optimiser:
        return make_named_optimiser(self.optimiser, learning_rate, self.max_gradient_norm, flat=True)

    def act(self, state: State, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        network, hidden = state.network, inputs.hidden
        if self.noisy and inputs.explore:
            network = draw_noise(network, inputs.key)
        features = network.torso(inputs.observation)
        if network.gru is not None:
            features = network.gru(hidden, features)
            hidden = hidden._replace(features=features)
        return best_action(network.q(features), split_mask(inputs.observation)[1]), hidden, inputs.hidden

    def action_values(
        self, state: State, hidden: PyTree[Array], observation: PyTree[Array]
    ) -> Float[Array, " actions"]:
        features = state.network.torso(observation)
        return state.network.q(features if state.network.gru is None else state.network.gru(hidden, features))

    def probabilities(self, state: State, observation: PyTree[Array], explore: bool) -> Float[Array, " actions"]:
        if self.gru_size:
            raise ForageError(f"{type(self).__name__} with memory has no probabilities for an observation by itself.")
        q = state.network(observation)
        return jax.nn.one_hot(best_action(q, split_mask(observation)[1]), q.shape[-1])

    def observe_action(self, state: State, hidden: PyTree[Array], action: PyTree[Array]) -> PyTree[Array]:
        return hidden._replace(action=state.network.actions.action_features(action)) if self.gru_size else hidden

    def learn(
        self, state: State, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, Metrics, Float[Array, " batch"]]:
        loss_key = jax.random.fold_in(key, 1)
        loss = self.noisy_loss if self.noisy else self.loss
        gradient, (error, metrics) = loss_gradient(loss, state.network, state.target, batch, loss_key)
        state = self.descend(state, gradient, clock, key)
        count = state.updates + 1
        target = update_target(self, state.target, state.network, count)
        start, length = self.window
        error = jnp.abs(error) * self.valid(batch.experience)[start : start + length]
        return state._replace(target=target, updates=count), metrics, self.surprise(error)

    def reset_networks(self, state: State, batch: Batch, key: Key[Array, ""], spec: Spec) -> tuple[State, Metrics]:
        observation = batch.transitions.observation
        metrics: Metrics = {}
        if self.count_dormant:
            metrics["dormant"] = share_dormant(state.network.units(observation), self.dormant_threshold)
        if self.recycle_interval:
            turn = lambda state: self.recycle(state, observation, self.init(key, spec))  # noqa: E731
            state = run_every(self.recycle_interval, state.updates, turn, state)
        return state, metrics

    def recycle(self, state: State, observation: PyTree[Array], fresh: State) -> State:
        """Reset dormant units of the network to the weights of a `fresh` state."""
        layers = state.network.units(observation)
        network, changed = recycle_units(state.network, fresh.network, layers, self.dormant_threshold)
        return state._replace(network=network, optimiser=reset_entries(state.optimiser, fresh.optimiser, changed))

    def descend(self, state: State, gradient: QNetwork, clock: Clock, key: Key[Array, ""]) -> State:
        """Take one step of the network down the gradient."""
        network, optimiser = self.descent(self.rate(clock)).step(gradient, state.optimiser, state.network)
        return state._replace(network=network, optimiser=optimiser)

    def rate(self, clock: Clock) -> Float[Array, ""]:
        """Compute the learning rate, as it falls linearly to its final share."""
        return self.learning_rate * (1 - clock.fraction * (1 - self.final_learning_rate))

    def surprise(self, error: Float[Array, "time batch"]) -> Float[Array, " batch"]:
        """Return one number for each segment; for sequences the mixture of R2D2, section 2.3."""
        return 0.9 * error.max(0) + 0.1 * error.mean(0) if self.gru_size else error[0]

    def valid(self, experience: Experience) -> Bool[Array, "time batch"]:
        """Return a mask of the steps to learn from."""
        return experience.counts

    def penalty(self, error: Float[Array, "time batch"]) -> Float[Array, "time batch"]:
        """Compute the loss of each error."""
        return optax.huber_loss(error)

    def loss(
        self, network: QNetwork, target: QNetwork, batch: Batch, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, ""], LossReport]:
        """Compute the weighted loss; report the errors of every step learned from, target minus estimate.

        A subclass adds a term, and its metrics by `report | {"name": number}`; `key` is a random key of this update.
        """
        experience = batch.experience
        start, length = self.window
        total, last, bootstrap = self.fold(experience)
        q, value = self.values(network, target, experience, last)
        goal = jax.lax.stop_gradient(total + bootstrap * value)
        error = goal - q
        each = self.divergence(network, experience, goal[0])[None] if self.bins else self.penalty(error)
        loss = jnp.mean(batch.weight * self.valid(experience)[start : start + length] * each)
        metrics = {"loss": loss, "q": goal.mean() - error.mean(), "error": jnp.abs(error).mean()}
        return loss, LossReport(error, metrics)

    def noisy_loss(
        self, network: QNetwork, target: QNetwork, batch: Batch, key: Key[Array, ""]
    ) -> tuple[Float[Array, ""], LossReport]:
        """Compute the loss with noise of its own in each of the networks."""
        key, online, later = jax.random.split(key, 3)
        return self.loss(draw_noise(network, online), draw_noise(target, later), batch, key)

    def divergence(
        self, network: QNetwork, experience: Experience, goal: Float[Array, " batch"]
    ) -> Float[Array, " batch"]:
        """Compute the cross-entropy of the histograms of the actions taken and those about their targets."""
        assert isinstance(network, HistogramNetwork)
        logits = network.spreads(jax.tree.map(lambda x: x[0], experience.observation))
        taken = jax.vmap(take_values, (-1, None), -1)(logits, experience.action[0])
        return network.bins.loss(taken, goal)

    def values(
        self, network: QNetwork, target: QNetwork, experience: Experience, last: Int[Array, "time batch"]
    ) -> tuple[Float[Array, "time batch"], Float[Array, "time batch"]]:
        """Return Q of the actions taken, and the values after their n-step returns, which end at `last`."""
        start, length = self.window
        if self.gru_size:
            q, online = network.sequence(experience, start)
            _, later = target.sequence(experience, start)
            mask = split_mask(jax.tree.map(lambda x: x[start:], experience.next_observation))[1]
            q, value = q[:length], self.next_value(online, later, mask)
            value = jnp.take_along_axis(value, jnp.arange(length)[:, None] + last, axis=0)
        else:
            q = network.rows(jax.tree.map(lambda x: x[0], experience.observation))[None]
            rows = jnp.arange(last.shape[1])
            after = jax.tree.map(lambda x: x[0] if self.n_step == 1 else x[last[0], rows], experience.next_observation)
            later = target.rows(after)
            online = network.rows(after) if self.double else later
            value = self.next_value(online, later, split_mask(after)[1])
        return take_values(q, experience.action[start : start + length]), value

    def fold(
        self, experience: Experience
    ) -> tuple[Float[Array, "time batch"], Int[Array, "time batch"], Float[Array, "time batch"]]:
        """`returns.n_step` of the `n_step` transitions from each step that is learned from."""
        start, length = self.window

        def windows(x: Array) -> Array:
            return jnp.stack([x[start + i : start + i + length] for i in range(self.n_step)])

        folded = jax.vmap(jax.vmap(returns.n_step, (1, 1, 1, None)), (1, 1, 1, None))
        return folded(
            windows(experience.reward), windows(experience.terminated), windows(experience.truncated), self.discount
        )

    def next_value(
        self,
        online: Float[Array, "*batch actions"],
        target: Float[Array, "*batch actions"],
        mask: Bool[Array, "*batch actions"] | None,
    ) -> Float[Array, "*batch"]:
        """Return the target network's value of its own best action, or with `double` of the online network's."""
        return take_values(target, best_action(online if self.double else target, mask))
