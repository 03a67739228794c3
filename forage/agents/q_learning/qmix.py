"""QMIX: a team's value is a monotonic function of its members' values, which depends on the state.

Rashid, Samvelyan, Schroeder de Witt, Farquhar, Foerster, Whiteson (2018), "QMIX: Monotonic Value Function Factorisation
for Deep Multi-Agent Reinforcement Learning", arXiv 1803.11485. With the members' values q of their actions and state s,

    Q(s, q) = elu(q |W_1(s)| + b_1(s)) |w_2(s)| + V(s)

is learned as `vdn` learns the sum. W_1, b_1 and w_2 are linear in the state, and V has one hidden layer. As no weight
of q is negative, each member's best action is also the team's, and members act by their own values alone.

The state is the observation's "state" where there is one, and else what all members see, side by side. Differences from
the authors' program (`QMixer` of pymarl): Adam in place of RMSProp, transitions or sequences from replay in place of
whole episodes, and no last action in the input of a member without memory. The rest is `vdn`'s.
"""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.agents.q_learning.dqn import QNetwork
from forage.agents.q_learning.vdn import VDN, Member
from forage.core import spaces
from forage.core.ports import ActInputs, State
from forage.core.ranges import Range, Ranges
from forage.core.types import Experience, Spec
from forage.nn.layers import MLP, Linear
from forage.nn.networks import NetworkConfig, Torso


class Mixer(equinox.Module):
    """The team's value, of the state and the members' values."""

    torso: Torso  # reads the state, or what one member sees
    first: Linear  # from the state to the weights of the first layer
    offset: Linear  # to its offsets
    second: Linear  # to the weights of the second layer
    value: MLP  # V(s)
    central: bool = equinox.field(static=True)  # the state is shown

    def __init__(self, key: Key[Array, ""], spec: Spec, agent: Any):
        keys, size = jax.random.split(key, 5), agent.mixing_size
        state = spaces.central(spec.observation_space)
        self.central = state is not None
        seen = state if state is not None else spaces.observation_part(spec.observation_space)
        self.torso = Torso(keys[0], seen, (), NetworkConfig.from_agent(agent))
        inputs = self.torso.size * (1 if self.central else spec.num_agents)
        self.first = Linear(keys[1], inputs, spec.num_agents * size)
        self.offset = Linear(keys[2], inputs, size)
        self.second = Linear(keys[3], inputs, size)
        self.value = MLP(keys[4], (inputs, size, 1), "relu")

    def state(self, observation: PyTree[Array]) -> Float[Array, "time batch inputs"]:
        """Return the state of observations of teams (leaves `time batch agent ...`)."""
        if self.central:
            shown = jax.tree.map(lambda x: x[:, :, 0], observation[spaces.STATE])
            return jax.vmap(jax.vmap(self.torso))(shown)
        each = jax.vmap(jax.vmap(jax.vmap(self.torso)))(spaces.split_mask(observation)[0])
        return each.reshape(*each.shape[:2], -1)

    def mix(self, q: Float[Array, " agent"], state: Float[Array, " inputs"]) -> Float[Array, ""]:
        """Compute the team's value."""
        weights = jnp.abs(self.first(state)).reshape(q.shape[0], -1)
        hidden = jax.nn.elu(q @ weights + self.offset(state))
        return hidden @ jnp.abs(self.second(state)) + self.value(state)[0]

    def __call__(self, q: Float[Array, "time batch agent"], observation: PyTree[Array]) -> Float[Array, "time batch"]:
        return jax.vmap(jax.vmap(self.mix))(q, self.state(observation))


class TeamNetwork(equinox.Module):
    """The members' network, and the mixer of their values."""

    q: QNetwork
    mixer: Mixer


class QMIX(VDN):
    """Monotonic mixing of the members' values (Rashid et al., 2018, arXiv 1803.11485)."""

    example: ClassVar[str] = "forage train qmix teams:TwoStep --steps 20k --behaviour epsilon-greedy --behaviour.end 1"
    ranges: ClassVar[Ranges] = {"mixing_size": Range(1)}

    mixing_size: int = equinox.field(static=True, default=32)  # units of the mixer's layer, and of V's; the authors'

    def init(self, key: Key[Array, ""], spec: Spec) -> State:
        state = super().init(key, spec)
        network = TeamNetwork(state.network, Mixer(jax.random.fold_in(key, 4), spec, self))
        target, optimiser = jax.tree.map(jnp.copy, network), self.descent(1.0).init(network)
        return state._replace(network=network, target=target, optimiser=optimiser)

    def act(self, state: State, inputs: ActInputs) -> tuple[PyTree[Array], Member, PyTree[Array]]:
        return super().act(state._replace(network=state.network.q), inputs)

    def action_values(self, state: State, hidden: Member, observation: PyTree[Array]) -> Float[Array, " actions"]:
        return super().action_values(state._replace(network=state.network.q), hidden, observation)

    def observe_action(self, state: State, hidden: Member, action: PyTree[Array]) -> Member:
        return super().observe_action(state._replace(network=state.network.q), hidden, action)

    def values(  # type: ignore[override]
        self, network: TeamNetwork, target: TeamNetwork, experience: Experience, last: Int[Array, "time batch"]
    ) -> tuple[Float[Array, "time batch"], Float[Array, "time batch"]]:
        """Mix the values of the members that are there."""
        q, value = self.member_values(network.q, target.q, experience, last)
        start, length = self.window
        step, rows = start + jnp.arange(length)[:, None] + last, jnp.arange(last.shape[1])
        now = jax.tree.map(lambda x: x[start : start + length], experience.observation)
        after = jax.tree.map(lambda x: x[step, rows], experience.next_observation)
        return network.mixer(q, now), target.mixer(value, after)
