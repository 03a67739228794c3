"""Rewards of two stages: first for searching, then for answers that were searched for."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from forage.core.ports import Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Clock, Experience, Spec
from forage.rewards.verifiers.base import TextRewards, at_the_end

NEEDED = ("searched", "form", "overlap")


class StagesState(NamedTuple):
    inner: Any
    second: Bool[Array, ""]  # whether the second stage has begun


class SearchStages(TextRewards):
    """R1-Searcher: an outcome reward for calling the search, and from some step on one for the final answer.

        stage 1    r = retrieval [a search was made] + form [the form is right]
        stage 2    r = F1 of the answer's words and the right one's - penalty [the form is wrong]

    The first stage knows no right answers. `begins` counts the steps of a seed, and a rollout belongs to the stage in
    which it began. What the search brings is the environment's text, of which no agent of language learns a token. What
    `inner` gives is not paid: the game's own reward, which `--env.stage` chooses, is the one that evaluations show.

    Source: Song, Jiang, Min, Chen, Chen, Zhao, Fang, Wen (2025), "R1-Searcher: Incentivizing the Search Capability in
    LLMs via Reinforcement Learning", arXiv 2503.05592, by summaries of its rewards, and as in the authors' reward
    servers: the penalty is 2 for their base model and 1 for their instructed one, for which stage 1 also pays 1 for an
    answer that contains the right one and -1 for another, which is not here. They have 350 questions in stage 1 and
    8148 in stage 2. Their agent is REINFORCE++ with the mean of a question's answers as the baseline
    (`reinforce-plus-plus-baseline`). The paper's own pages could not be looked up.
    """

    example: ClassVar[str] = "forage train reinforce-plus-plus-baseline text:search-qa --rewards search-stages"
    ranges: ClassVar[Ranges] = {"begins": Range(0), "retrieval": Range(0), "form": Range(0), "penalty": Range(0)}
    needs: ClassVar[Needs] = Needs(
        info=NEEDED,
        reason="SearchStages pays for searches and answers that the environment tells apart",
        instead="use text:search-qa",
    )

    retrieval: float = 0.5  # what a game with a search is paid in the first stage
    form: float = 0.5  # what the right form is paid in the first stage
    penalty: float = 2.0  # what a wrong form costs in the second stage; 1 for models that know instructions
    begins: int = equinox.field(static=True, default=6400)  # steps of a seed after which the second stage begins

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> StagesState:
        return StagesState(self.inner.init(key, spec, num_envs), jnp.bool_(self.begins == 0))

    def relabel(self, state: StagesState, experience: Experience) -> Experience:
        given = self.inner.relabel(state.inner, experience)
        searched, form, overlap = (final_info(experience, name) for name in ("searched", "form", "overlap"))
        first = self.retrieval * searched + self.form * form
        paid = jnp.where(state.second, overlap - self.penalty * (1 - form), first)
        return given._replace(reward=at_the_end(experience, paid))

    def learn(
        self, state: StagesState, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[StagesState, PyTree[Array], Metrics]:
        inner, rewards_info, metrics = self.inner.learn(state.inner, rollout, clock, key)
        second = clock.steps >= self.begins
        said = {name: final_info(rollout, name).mean() for name in sorted(NEEDED)}
        return StagesState(inner, second), rewards_info, metrics | said | {"stage": 1.0 + second}

    def truncate(self, state: StagesState) -> StagesState:
        return state._replace(inner=self.inner.truncate(state.inner))


def final_info(experience: Experience, name: str) -> Float[Array, " env"]:
    """Return the environment's information at each episode's last step, 0 for an episode that no longer fitted."""
    return jnp.nan_to_num(experience.info[name][-1])
