"""Opponents in evaluation by name: random moves, perfect play, or the directory of a run."""

from __future__ import annotations

from typing import Any

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from forage.config.saved import load_policy
from forage.core import spaces
from forage.core.ports import ActInputs, Agent, Environment, Opponent
from forage.core.types import ForageError, Spec
from forage.environments.boards.solve import Perfect
from forage.environments.boards.tic_tac_toe import TicTacToe

RANDOM, PERFECT = "random", "perfect"


class Random(Opponent):
    """A player of random legal moves."""

    def act(
        self, hidden: PyTree[Array], observation: PyTree[Array], spec: Spec, key: Key[Array, ""]
    ) -> tuple[PyTree[Array], PyTree[Array]]:
        return spaces.sample(spec.action_space, key, spaces.split_mask(observation)[1]), hidden


class TrainedOpponent(Opponent):
    """A trained agent with its evaluation actions."""

    agent: Agent
    agent_state: Any
    sampled: bool = equinox.field(static=True)  # its actions are drawn, as in training

    def init_hidden(self, spec: Spec) -> PyTree[Array]:
        return self.agent.init_hidden(spec)

    def act(
        self, hidden: PyTree[Array], observation: PyTree[Array], spec: Spec, key: Key[Array, ""]
    ) -> tuple[PyTree[Array], PyTree[Array]]:
        action, hidden, _ = self.agent.act(self.agent_state, ActInputs(hidden, observation, key, explore=self.sampled))
        return action, self.agent.observe_action(self.agent_state, hidden, action)


def check_opponent(name: str | None, environment: Any, spec: Spec) -> None:
    """Raise `ForageError` if an evaluation cannot have an opponent."""
    if name is None:
        return
    if not isinstance(environment, Environment):
        raise ForageError(
            f"{spec.name} runs on the host, and opponents play in native environments alone, such as boards:TicTacToe."
        )
    if spec.num_agents < 2:
        raise ForageError(
            f"{spec.name} has one agent, so there is no seat for an opponent; an environment that has one is "
            f"boards:TicTacToe."
        )
    if spec.reward_names:
        raise ForageError(
            f"{spec.name} has several rewards ({', '.join(spec.reward_names)}), and who wins is told from one reward."
        )
    if name == PERFECT and not isinstance(environment, TicTacToe):
        raise ForageError(
            f"There is a perfect player of boards:TicTacToe as it is, and none of {spec.name}; {RANDOM} or a run's "
            f"directory is an opponent anywhere."
        )


def opponent_of(name: str | None, environment: Any, spec: Spec) -> Opponent | None:
    """Return the opponent of that name. Raise `ForageError` if there is none."""
    check_opponent(name, environment, spec)
    if name is None:
        return None
    if name in (RANDOM, PERFECT):
        return Random() if name == RANDOM else Perfect()
    try:
        policy = load_policy(name)
    except ForageError as error:
        raise ForageError(
            f"An opponent is {RANDOM}, {PERFECT} or a run's directory, not {name!r}: {str(error).rstrip('.')}."
        ) from None
    known = policy.spec
    plays, wanted = ([spaces.to_json(x.observation_space), spaces.to_json(x.action_space)] for x in (known, spec))
    if plays != wanted:
        raise ForageError(
            f"The agent of {name} plays {known.name}, which shows or takes other things than {spec.name}; a run in "
            f"{spec.name} is an opponent there."
        )
    policy.agent.check_unpaid("an opponent")
    return TrainedOpponent(policy.agent, jax.tree.map(jnp.asarray, policy.state), policy.sampled)
