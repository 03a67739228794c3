"""Some answers of each group are those of the policy that learning began from."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from forage.core.ports import ActContext, Behaviour, Decision, HiddenState
from forage.core.ports.needs import Needs
from forage.core.types import AGENT, GUIDE


class ReferencePolicy(Behaviour):
    """The first policy writes the first answers of each group; their number is the agent's `firsts`.

    A*-PO estimates from them what a prompt is worth (Brantley et al., 2025, arXiv 2505.20686); XPO compares one of them
    with one of the policy's (Xie et al., 2024, arXiv 2405.21046). Both policies write in turn, so a step takes the time
    of two.
    """

    example: ClassVar[str] = "forage train xpo text:addition --behaviour reference-policy"
    needs: ClassVar[Needs] = Needs(
        writes=True,
        groups=True,
        ability="firsts",
        reason="does not learn from answers of its first policy",
        instead="a-star-po does, and online-dpo with the preference xpo",
    )

    def act(self, state: Any, hidden: HiddenState, observation: PyTree[Array], moment: ActContext) -> Decision:
        agent: Any = moment.agent
        first = moment.stream_index % agent.group < agent.firsts
        now = moment.agent_state

        def answer(network: Any, there: Bool[Array, ""]) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
            """Write an answer for rows that are `there`; rows without a context get none."""
            read = observation | {"context": jnp.where(there, observation["context"], 0)}
            policy = moment._replace(agent_state=now._replace(network=network))
            return policy.own(hidden.agent, read, moment.key)

        then, own = answer(agent.reference_of(now), first), answer(now.network, ~first)
        action, memory, policy_info = jax.tree.map(lambda a, b: jnp.where(first, a, b), then, own)
        return Decision(
            action, hidden._replace(agent=memory), policy_info, jnp.where(first, GUIDE, AGENT).astype(jnp.int32)
        )
