"""Soft Q imitation learning: reward 1 for demonstrations, 0 for the agent's own steps."""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from forage.core.ports import ActContext, Agent, Environment
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Spec
from forage.data.demonstrations import Demonstrations, as_demonstrations
from forage.data.files import check_recordable
from forage.memory.uniform import UniformReplay
from forage.ops.ring import Ring


class SQIL(UniformReplay):
    """Batches with a share of demonstrations of reward 1; the rest is the agent's own, with reward 0.

    What the environment pays is not used to learn. With an agent that learns soft values from replay, as published:
    `sac-discrete` or `sac`; `dqn` works as well. Where episodes end of themselves before the demonstrator's would, the
    agent loses what comes after; where the demonstrator ends them soon, as by reaching a place, it loses by ending
    them, as every step beside a demonstration is worth up to 1. No absorbing state mends that here.

    Half of each batch is the paper's, of whose page no more than its abstract and others' accounts could be looked up.

    Source: Reddy, Dragan, Levine (2020), "SQIL: Imitation Learning via Reinforcement Learning with Sparse Rewards",
    arXiv 1905.11108.
    """

    example: ClassVar[str] = (
        "forage train sac-discrete CartPole-v1 --memory sqil --memory.demonstrations expert.npz --target-entropy 0.2"
    )
    ranges: ClassVar[Ranges] = {"share": Range(0, 1)}

    joint: ClassVar[bool] = False
    needs: ClassVar[Needs] = Needs(given="demonstrations", without_memory=True)

    demonstrations: str | Demonstrations | None = equinox.field(
        default=None, converter=as_demonstrations
    )  # file of the
    # transitions to imitate, as forage data record writes it
    share: float = equinox.field(static=True, default=0.5)  # share of each batch that are demonstrations

    def check(self, agent: Agent, spec: Spec, environment: Environment | None) -> None:
        """Raise `ForageError` if there are no demonstrations, or the agent wants notes that they lack."""
        super().check(agent, spec, environment)
        check_recordable(spec)

    def sample(self, state: Ring, size: int, length: int, moment: ActContext) -> Batch:
        key, shown_key = jax.random.split(moment.key)
        batch = super().sample(state, size, length, moment._replace(key=key))
        assert isinstance(self.demonstrations, Demonstrations)
        shown = self.demonstrations.segments(shown_key, size, length)
        many = round(self.share * size)
        own = batch.experience

        def join_halves(mine: PyTree[Array], theirs: PyTree[Array]) -> PyTree[Array]:
            return jax.tree.map(lambda a, b: jnp.concatenate([b[:, :many], a[:, many:]], axis=1), mine, theirs)

        worth = jnp.broadcast_to(jnp.arange(size) < many, own.terminated.shape).astype(jnp.float32)
        experience = own._replace(
            observation=join_halves(own.observation, shown.observation),
            action=join_halves(own.action, shown.action),
            reward=worth,
            next_observation=join_halves(own.next_observation, shown.next_observation),
            terminated=join_halves(own.terminated, shown.terminated),
            truncated=join_halves(own.truncated, shown.truncated),
            source=join_halves(own.source, shown.source),
        )
        return batch._replace(experience=experience)
