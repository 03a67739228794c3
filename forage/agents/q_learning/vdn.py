"""Value decomposition: a team's value is the sum of its members' values, and is learned from the team's reward.

Sunehag, Lever, Gruslys, Czarnecki, Zambaldi, Jaderberg, Lanctot, Sonnerat, Leibo, Tuyls, Graepel (2017),
"Value-Decomposition Networks For Cooperative Multi-Agent Learning", arXiv 1706.05296. Of what member i sees, o^i, and
does, a^i,

    Q(o, a) = sum_i Q_i(o^i, a^i)

is learned as `dqn` learns Q, from the team's reward. As max_a Q is the sum of the members' own maxima, each member acts
by its own values alone. The members share one network; where it is told which member it speaks for, they may still act
differently.

The team's reward is the mean of its members' rewards, which is what runs report: where all are paid alike, what each of
them is paid. The team's episode ends when it has ended for all. A member that has left is worth nothing from then on.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.agents.q_learning.dqn import DQN, QNetwork
from forage.core import spaces, team
from forage.core.ports import ActInputs, State
from forage.core.ports.needs import Needs
from forage.core.types import Experience, ForageError, Spec


class Member(NamedTuple):
    """A team member's state within an episode."""

    number: Float[Array, " agent"]  # which one it is, one-hot
    memory: PyTree[Array]  # as `dqn` has it


class VDN(DQN):
    """Value decomposition networks (Sunehag et al., 2017, arXiv 1706.05296): deep Q-learning for teams.

    The loss is the squared error: of payoffs that no sum of values gives, it has one least sum, where Huber's loss has
    many. Memory, dueling streams and longer returns are options of `dqn`; the authors use an LSTM and dueling streams.
    Replay keeps whole transitions of the team, so a batch of 32 holds 32 for each member. It runs on the device and on
    the host, in environments of two agents or more; data sets are of one agent.
    """

    example: ClassVar[str] = "forage train vdn teams:TwoStep --steps 20k --behaviour epsilon-greedy --behaviour.end 1"

    joint: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs(agents="team", instead="use dqn there, or a team such as teams:TwoStep")

    identity: bool = equinox.field(static=True, default=True)  # the network is told which member it speaks for
    dueling: bool = equinox.field(static=True, default=False)
    n_step: int = equinox.field(static=True, default=1)

    def init(self, key: Key[Array, ""], spec: Spec) -> State:
        if self.identity:
            seen = {
                "observation": spaces.observation_part(spec.observation_space),
                "member": spaces.OneHot(spec.num_agents),
            }
            spec = dataclasses.replace(spec, observation_space=gymnasium.spaces.Dict(seen))
        return super().init(key, spec)

    def init_hidden(self, spec: Spec) -> Member:
        return Member(jnp.zeros(spec.num_agents), super().init_hidden(spec))

    def member(self, hidden: Member, number: Int[Array, ""]) -> Member:
        return hidden._replace(number=jax.nn.one_hot(number, hidden.number.size))

    def with_number(self, observation: PyTree[Array], number: Float[Array, "*batch agent"]) -> PyTree[Array]:
        """Add a member's number to its observation; its action mask stays at the top level."""
        if not self.identity:
            return observation
        seen, mask = spaces.split_mask(observation)
        both = {"observation": seen, "member": number}
        return both if mask is None else {"observation": both, spaces.MASK: mask}

    def act(self, state: State, inputs: ActInputs) -> tuple[PyTree[Array], Member, PyTree[Array]]:
        told = self.with_number(inputs.observation, inputs.hidden.number)
        action, memory, before = super().act(state, inputs.replace(hidden=inputs.hidden.memory, observation=told))
        return action, inputs.hidden._replace(memory=memory), before

    def action_values(self, state: State, hidden: Member, observation: PyTree[Array]) -> Float[Array, " actions"]:
        return super().action_values(state, hidden.memory, self.with_number(observation, hidden.number))

    def probabilities(self, state: State, observation: PyTree[Array], explore: bool) -> Float[Array, " actions"]:
        raise ForageError("VDN acts for a team, and has no probabilities for what one agent sees; dqn does.")

    def observe_action(self, state: State, hidden: Member, action: PyTree[Array]) -> Member:
        return hidden._replace(memory=super().observe_action(state, hidden.memory, action))

    def valid(self, experience: Experience) -> Bool[Array, "time batch"]:
        return experience.counts.any(-1)

    def penalty(self, error: Float[Array, "time batch"]) -> Float[Array, "time batch"]:
        return error**2 / 2

    def fold(
        self, experience: Experience
    ) -> tuple[Float[Array, "time batch"], Int[Array, "time batch"], Float[Array, "time batch"]]:
        """Fold the team's rewards, to the ends of its episodes."""
        return super().fold(team.as_one(experience, experience.terminated.shape[-1]))

    def values(
        self, network: QNetwork, target: QNetwork, experience: Experience, last: Int[Array, "time batch"]
    ) -> tuple[Float[Array, "time batch"], Float[Array, "time batch"]]:
        """Sum the values of the members that are there."""
        q, value = self.member_values(network, target, experience, last)
        return q.sum(-1), value.sum(-1)

    def member_values(
        self, network: QNetwork, target: QNetwork, experience: Experience, last: Int[Array, "time batch"]
    ) -> tuple[Float[Array, "time batch agent"], Float[Array, "time batch agent"]]:
        """Return each member's Q of its action, and its value after the n-step returns; 0 of members that have left."""
        shape, (start, length) = experience.terminated.shape, self.window
        number = jnp.broadcast_to(jnp.eye(shape[-1]), (*shape, shape[-1]))
        told = experience._replace(
            observation=self.with_number(experience.observation, number),
            next_observation=self.with_number(experience.next_observation, number),
        )
        each = super().values(network, target, team.as_agent_batch(told, shape[-1]), jnp.repeat(last, shape[-1], 1))
        q, value = (x.reshape(length, *shape[1:]) for x in each)
        stays = spaces.present(experience.next_observation)
        if stays is not None:
            step = start + jnp.arange(length)[:, None] + last
            value = value * (jnp.take_along_axis(stays, step[..., None], 0) >= 0)
        return q * experience.counts[start : start + length], value
