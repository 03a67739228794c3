"""A trained agent that acts: no environment and no training options needed."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from forage.core import prng, spaces, team
from forage.core.ports import Agent, World
from forage.core.schedule import held
from forage.core.sweep import told
from forage.core.types import ForageError, Spec

AUTO = "auto"
ACTIONS = {"greedy": "greedily", "sampled": "with sampled actions"}
"""How an agent can play, and how that is said."""


def check_actions(evaluation_actions: str) -> None:
    """Raises `ForageError` for a way to act in evaluation that is not there."""
    if evaluation_actions not in (AUTO, *ACTIONS):
        raise ForageError(f"Actions in evaluation are {AUTO}, {' or '.join(ACTIONS)}, not {evaluation_actions!r}.")


def actions_of(config: dict[str, Any], evaluation: dict[str, Any] | None, asked: str | None = None) -> str:
    """Return how a run's agent plays unless `asked` to play otherwise: as its configuration says.

    Where that is `auto`, as was chosen when the run was evaluated; greedily, where nothing was chosen.
    """
    asked = asked or config.get("evaluation_actions", "greedy")
    check_actions(asked)
    if asked != AUTO:
        return asked
    return ((evaluation or {}).get("choice") or {}).get("actions", "greedy")


class Policy:
    """Acts as the trained agent does when it is evaluated, or as it explores. Remembers within an episode.

    Examples:
        >>> agent = forage.load("runs/ppo-CartPole-v1")  # doctest: +SKIP
        >>> action = agent.act(observation)  # doctest: +SKIP
    """

    member: dict[str, Any] = {}
    """The seed, and the settings of a sweep, with which this agent was trained; empty where it is of no run."""

    members, settings, evaluated = 1, 1, False  # among how many, of how many settings, it was chosen by evaluation

    def __init__(self, agent: Agent, state: Any, spec: Spec, sampled: bool = False):
        agent = held(agent, 1.0)
        self.agent, self.state, self.spec, self.sampled = agent, state, spec, sampled

        def act(state: Any, hidden: Any, observation: Any, key: Any, explore: bool, world: World | None = None) -> Any:
            ahead: dict[str, Any] = {"world": world} if agent.looks_ahead else {}
            action, hidden, _ = agent.act(state, hidden, observation, key, explore, **ahead)
            return spaces.clip(spec.action_space, action), agent.acted(state, hidden, action)

        def step(state: Any, hidden: Any, observation: Any, key: Any, explore: bool, world: World | None) -> Any:
            # The key is split in here, as by itself that takes as long as a small network.
            later, key = jax.random.split(key)
            if spec.num_agents == 1:
                return *act(state, hidden, observation, key, explore, world), later
            keys = jax.random.split(key, spec.num_agents)
            return *jax.vmap(act, in_axes=(None, 0, 0, 0, None))(state, hidden, observation, keys, explore), later

        self._step = jax.jit(step, static_argnums=4)
        self._like = team.repeat(spaces.example(spec.observation_space), spec.num_agents)
        self.reset()

    @property
    def chosen(self) -> str:
        """Which member of its run this is, where it was chosen among several: one sentence; else nothing."""
        if self.members < 2:
            return ""
        why = "the best in evaluation" if self.evaluated else "the first, as none is evaluated yet,"
        if self.evaluated and self.settings > 1:
            why = f"the best seed of the best of {self.settings} settings in evaluation,"
        names = " and ".join(["seed", *(name for name in self.member if name != "seed")])
        return (
            f"Took {told(self.member)}: {why} of {self.members} trained agents; {names} can be named to take another."
        )

    def reset(self, seed: int = 0) -> None:
        """Forgets the episode."""
        self._hidden = team.memory(self.agent, self.spec)
        self._key = prng.key(seed)

    def act(self, observation: Any, explore: bool | None = None, world: World | None = None) -> Any:
        """The action for one observation, as NumPy. Where there are many agents: all their actions for all they see.

        `explore`: whether it is drawn as in training; unless said, as the run was evaluated. `world`: the environment
        as it stands, for an agent that looks ahead.
        """
        explore = self.sampled if explore is None else explore
        observation = self._check(observation)
        world = world if self.agent.looks_ahead else None
        action, self._hidden, self._key = self._step(self.state, self._hidden, observation, self._key, explore, world)
        return jax.tree.map(np.asarray, action)

    def probabilities(self, observations: Any, explore: bool = False) -> Any:
        """The probabilities `[batch, action]` of numbered actions, for observations `[batch, ...]`, as NumPy.

        Without `explore`, of the policy as it is evaluated: 1 for the action it takes. Raises `ForageError` for agents
        with memory, whose actions depend on more, and for those whose actions are not numbered.
        """

        def one(state: Any, observation: Any) -> Any:
            observation = jax.tree.map(lambda like, x: x.astype(like.dtype), self._like, observation)
            return self.agent.probabilities(state, observation, explore)

        found = jax.jit(jax.vmap(one, in_axes=(None, 0)))(self.state, jax.tree.map(np.asarray, observations))
        return np.asarray(found)

    def _check(self, observation: Any) -> Any:
        """The observation as arrays of the right types. Raises `ForageError` when it is not one of the space."""
        try:
            observation = jax.tree.map(
                lambda like, x: spaces.fitted(np.asarray(x), like.dtype), self._like, observation
            )
        except (TypeError, ValueError) as error:
            raise ForageError(
                f"One observation of {self.spec.name} is an element of {self.spec.observation_space}, not "
                f"{type(observation).__name__} ({str(error).splitlines()[0].rstrip('.')})."
            ) from error
        for found, like in zip(jax.tree.leaves(observation), jax.tree.leaves(self._like), strict=True):
            if found.shape != like.shape:
                raise ForageError(f"One observation of {self.spec.name} has shape {like.shape}, not {found.shape}.")
        return observation
