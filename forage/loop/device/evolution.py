"""The loop of agents that learn from whole returns: ask for a population, play it, tell the returns.

It runs where `loop.py` does (`runner.py`), and plays by the code that evaluates. In each iteration the runner's clock
moves on by the most steps that a generation may take. Where episodes end early, a seed plays further generations while
another one surely fits. So it has learned from no more steps than the clock says, and at most one generation fewer.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from forage.core import mesh
from forage.core.ports import Evolver, Metrics
from forage.core.schedule import at_fraction
from forage.core.types import Clock, Experience, ForageError
from forage.loop.device.collect import sum_infos
from forage.loop.device.evaluate import play_episodes
from forage.loop.device.loop import DeviceLoop
from forage.loop.learner import ChunkStats, Episodes, LearnerState, State, finite


class EvolutionState(NamedTuple):
    """The complete state of a run, for one seed; fields of parts that this loop does not use are empty."""

    key: Key[Array, ""]
    learner: LearnerState  # the agent alone
    played: Int[Array, ""]  # environment steps
    starts: tuple[()] = ()
    pool: tuple[()] = ()
    actors: tuple[()] = ()
    visits: tuple[()] = ()


class EvolutionLoop(DeviceLoop):
    """Ask, play and tell, a pure function from state to state for one seed."""

    @property
    def evolver(self) -> Evolver:
        assert isinstance(self.agent, Evolver)
        return self.agent

    def init(self, key: Key[Array, ""]) -> State:
        key, agent_key = jax.random.split(key)
        learner = LearnerState(at_fraction(self.agent, 0.0).init(agent_key, self.learner.spec), (), (), ())
        return EvolutionState(key, learner, jnp.int32(0))

    def iterate(self, state: State, clock: Clock) -> tuple[State, ChunkStats]:
        """Play generations as long as another one of full length fits into the clock's total."""
        shapes = jax.eval_shape(lambda state: self.generation(state, clock)[1], state)
        nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

        def play(carry: tuple[EvolutionState, ChunkStats]) -> tuple[EvolutionState, ChunkStats]:
            state, tally = self.generation(carry[0], clock)
            return state, jax.tree.map(jnp.add, carry[1], tally)

        return jax.lax.while_loop(lambda carry: carry[0].played <= clock.steps, play, (state, nothing))

    def generation(self, state: EvolutionState, clock: Clock) -> tuple[EvolutionState, ChunkStats]:
        """Ask for a population, play each member's episodes, and tell the agent their mean returns."""
        agent, before = at_fraction(self.evolver, clock.fraction), state.learner.agent
        key, ask_key, play_key = jax.random.split(state.key, 3)
        population = agent.ask(before, ask_key)

        def play(member: State, key: Key[Array, ""]):
            learner = state.learner._replace(agent=before._replace(**{agent.acting: member}))
            own = {"split": False, "summarise": agent.summarise, "summary": agent.init_summary(before)}
            return play_episodes(self, learner, key, agent.episodes, agent.rollout_length, **own)

        members = mesh.split_leaves(population), mesh.split_leaves(jax.random.split(play_key, agent.population))
        episodes = jax.vmap(play)(*members)
        returns, played = episodes.returns.mean(-1), state.played + episodes.lengths.sum()
        after = agent.tell(before, population, returns, clock._replace(steps=played))
        after = agent.observe_summaries(after, episodes.summary)

        # Report
        count, length = jnp.float32(agent.num_envs), episodes.lengths.sum().astype(jnp.float32)
        metrics = {"best_return": jnp.max(returns), "return_deviation": jnp.std(returns), "updates": jnp.float32(1)}
        faults = (~finite(returns)).astype(jnp.float32)
        tally = ChunkStats(Episodes(count, episodes.returns.sum(), length), metrics, faults, sum_infos(episodes.infos))
        return EvolutionState(key, state.learner._replace(agent=after), played), tally

    def latest(self, state: State) -> Metrics:
        return {"played": state.played}

    def next_rollout(self, state: State, clock: Clock) -> Experience:
        raise ForageError(f"{type(self.agent).__name__} keeps returns alone, so there is no rollout to look into.")
