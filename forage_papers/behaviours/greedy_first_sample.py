"""The first answer of each group is the most probable one."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, PyTree

from forage.core.ports import ActContext, Behaviour, Decision, HiddenState
from forage.core.ports.needs import Needs


class GreedyFirstSample(Behaviour):
    """The first answer of each group is written at temperature 0, all others as the agent writes.

    Its reward is a baseline of the others that costs no critic: Li et al. (2023), "ReMax", arXiv 2310.10505, as in the
    authors' `remax_trainer.py`. Other agents that compare answers learn from it as from any.
    """

    example: ClassVar[str] = "forage train remax text:addition --behaviour greedy-first-sample"
    needs: ClassVar[Needs] = Needs(writes=True, groups=True)

    def act(self, state: Any, hidden: HiddenState, observation: PyTree[Array], moment: ActContext) -> Decision:
        agent: Any = moment.agent
        first = moment.stream_index % agent.group == 0
        agent = dataclasses.replace(agent, temperature=jnp.where(first, 0.0, agent.temperature))
        action, memory, policy_info = moment._replace(agent=agent).own(hidden.agent, observation, moment.key)
        return Decision(action, hidden._replace(agent=memory), policy_info)
