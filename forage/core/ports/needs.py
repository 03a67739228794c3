"""Declarations of a part: its needs, the words that its options may be, and options without effect."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Literal

Actions = Literal[
    "",
    "any",
    "numbered",
    "choices",
    "continuous",
    "bounded",
    "bounded mixed",
    "bounded or bounded mixed",
    "numbered or bounded",
    "choices or bounded",
    "any or mixed",
    "choices or bounded or bounded mixed",
]
Observations = Literal["", "any", "array", "vector", "numbered", "text"]
Agents = Literal["any", "one", "team"]
Choices = Mapping[str, Collection[str]]
"""The words that options may be, by the option's name."""
Unused = Mapping[str, str | tuple[str, str]]
"""Options that have no effect on a class, by names with blanks between them: the reason, which begins a sentence, and
if there is one an alternative that uses them.
"""


@dataclasses.dataclass(frozen=True)
class Needs:
    """The needs of a part: requirements on the environment and its tasks, and on the agent. By default it has none."""

    # The environment and its tasks
    actions: Actions = ""  # numbered: Discrete; choices: MultiDiscrete, too; continuous: Box; bounded: with bounds;
    # any: one of these; mixed: choices beside numbers in a Dict or Tuple. Those that a class names replace its bases'
    observations: Observations = ""  # array: Box or Discrete; vector: a Box with one axis; numbered: Discrete or
    # one-hot; text: tokens that are answered with tokens; any: all that networks read
    agents: Agents = "any"
    one_reward: bool = False
    unmasked: bool = False  # every action is allowed everywhere
    horizon: bool = False  # episodes have a longest length
    whole_episodes: int = 0  # the longest episodes that fit into a rollout one after another
    single_turn: bool = False  # an answer is a whole episode
    info: tuple[str, ...] = ()  # numbers that each step returns, by name
    provides: str = ""  # an attribute of the environment, which is not empty
    same_task: bool = False  # tasks do not differ

    # The agent
    without_memory: bool = False
    off_policy: bool = False  # it also learns from actions of others
    normal_noise: bool = False  # it makes actions from standard normal numbers
    writes: bool = False  # it writes text at a temperature
    groups: bool = False  # it compares several answers to one prompt
    ability: str = ""  # an attribute of the agent, which is not empty

    # The part's own options
    given: str = ""  # an option that names a file or a run, and has no default

    # The sentence that refuses a run. If an ability, info or what the environment provides is needed, it is about that
    reason: str = ""  # its beginning, {} being the part; or after the agent's name how it lacks the ability
    instead: str = ""  # its end: an alternative that works

    def words(self) -> list[str]:
        """Describe each need in a few words."""
        kinds = {"actions": self.actions, "observations": self.observations}
        found = [f"{kind} {name}" for name, kind in kinds.items() if kind not in ("", "any", "any or mixed")]
        found += {"one": ["one agent"], "team": ["a team of agents"]}.get(self.agents, [])
        found += [f"{name} with each step" for name in self.info]
        found += [f"--{self.given.replace('_', '-')}"] if self.given else []
        return found + [words for name, words in WORDS.items() if getattr(self, name)]


WORDS = {
    "one_reward": "one reward",
    "unmasked": "actions that are all allowed",
    "horizon": "episodes of limited length",
    "whole_episodes": "rollouts of whole episodes",
    "single_turn": "answers in one turn",
    "same_task": "one task",
    "without_memory": "an agent without memory",
    "off_policy": "an agent that learns from actions of others, too",
    "normal_noise": "an agent that acts by normal noise",
    "writes": "an agent that writes text",
    "groups": "an agent that compares answers",
}
"""Words for needs that are true or false."""
