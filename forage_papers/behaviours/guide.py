"""Jump-start reinforcement learning: a guide plays the beginning of each episode, the agent the rest."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core import prng, spaces
from forage.core.ports import ActContext, ActInputs, Agent, Behaviour, Decision, HiddenState
from forage.core.ports.checking import check_agent
from forage.core.ports.needs import Choices
from forage.core.ranges import Range, Ranges
from forage.core.types import AGENT, GUIDE, Clock, Experience, ForageError, Spec

SCHEDULES = ("curriculum", "random")


class Progress(NamedTuple):
    """The behaviour's memory within an episode."""

    time: Int[Array, ""]  # steps taken
    guided: Int[Array, ""]  # steps that are the guide's in this episode, settled at its first step
    stage: Int[Array, ""]  # of the curriculum, as that step found it
    guide: PyTree[Array]  # the guide's own memory


class Curriculum(NamedTuple):
    """The stage of weaning off the guide, and the returns that decide about it."""

    stage: Int[Array, ""]
    best: Float[Array, ""]  # best mean return so far
    total: Float[Array, ""]  # of the returns heard since the last judgement
    number: Int[Array, ""]  # of those returns
    running: Float[Array, " env"]  # return of each episode under way


def as_pytree(policy: Any) -> Any:
    """Make a bare function a pytree without leaves; anything else is one already."""
    return jax.tree_util.Partial(policy) if callable(policy) and jax.tree_util.all_leaves([policy]) else policy


class Guide(Behaviour):
    """The guide acts for the first h steps of each episode, then the agent; h falls from `steps` to 0.

    `schedule="curriculum"` (JSRL-Curriculum): h = ceil(steps (1 - stage / stages)), stage = 0 ... stages. Whenever
    `episodes` episodes or more have been played wholly in the stage, their mean return R is judged: the stage is passed
    when R >= best - tolerance |best|, where best is the best such mean so far (so the guide sets the first standard;
    for positive returns this is (1 - tolerance) best).
    `schedule="random"` (JSRL-Random): h is drawn uniformly from 0 ... steps for each episode.

    An episode keeps the h it began with. While the guide acts the agent's memory follows what is seen, and
    `Experience.source` says GUIDE, so that policy gradients leave those steps out and value estimates learn from them.
    After the guide nothing explores but the agent's own acting, which for greedy agents such as `dqn` means nothing at
    all; there is no uniform start.

    `policy`: any pytree `(observation, key) -> action`, a plain function, or a trained `(agent, agent_state)`, which
    plays its evaluation policy.

    Source: Uchendu, Xiao, Lu, Zhu, Yan, Simon, Bennice, Fu, Ma, Jiao, Levine, Hausman (2022), "Jump-Start
    Reinforcement Learning", arXiv 2204.02372. There the stages are judged by evaluation episodes, here by the training
    episodes themselves; and `steps` is what the guide needs in the mean.
    """

    example: ClassVar[str] = "see the Python example in its docstring"
    ranges: ClassVar[Ranges] = {"steps": Range(0)}
    choices: ClassVar[Choices] = {"schedule": SCHEDULES}

    policy: Any = equinox.field(converter=as_pytree)  # the policy that acts first: a function, or a trained agent with
    # its state
    steps: int  # steps of each episode that the guide acts at first
    tolerance: float = 0.05  # share of the best return that a stage may fall short of and be passed; larger hands over
    # sooner
    schedule: str = equinox.field(static=True, default="curriculum")  # how the guide's steps fall: curriculum or random
    stages: int = equinox.field(static=True, default=10)  # stages in which the guide's steps fall to 0; more hand over
    # in smaller steps
    episodes: int = equinox.field(static=True, default=20)  # episodes by which a stage is judged; more judge it more
    # surely, and later

    @property
    def trained(self) -> bool:
        """Return whether the guide is an agent with its state rather than a function."""
        return isinstance(self.policy, tuple) and len(self.policy) == 2 and isinstance(self.policy[0], Agent)

    def check(self, agent: Agent, spec: Spec) -> None:
        if self.trained:
            check_agent(self.policy[0], spec)
            self.policy[0].check_unpaid("a guide")
            if self.policy[0].joint:
                raise ForageError(
                    f"A guide leads each agent by itself, and {type(self.policy[0]).__name__} acts for a whole team; "
                    f"take a guide that is no team's, such as dqn."
                )
        elif not callable(self.policy):
            raise ForageError(
                f"A guide is a function of (observation, key) or a pair (agent, agent_state), not "
                f"{type(self.policy).__name__}."
            )
        if self.schedule == "curriculum" and spec.reward_names:
            raise ForageError(
                f"{spec.name} gives several rewards ({', '.join(spec.reward_names)}) and a curriculum judges by one; "
                f'Guide(..., schedule="random") needs none.'
            )
        wanted = spaces.example(spec.action_space)
        observation = spaces.example(spec.observation_space)
        given, _ = jax.eval_shape(lambda: self.lead(self.remember(spec), observation, prng.key(0)))
        fits = jax.tree.structure(given) == jax.tree.structure(wanted) and all(
            g.shape == w.shape and jnp.issubdtype(g.dtype, jnp.floating) <= jnp.issubdtype(w.dtype, jnp.floating)
            for g, w in zip(jax.tree.leaves(given), jax.tree.leaves(wanted), strict=True)
        )
        if not fits:
            words = ", ".join(f"{leaf.dtype}{list(leaf.shape)}" for leaf in jax.tree.leaves(given))
            raise ForageError(
                f"The guide's action is {words}; {spec.name} takes one of {spaces.describe_space(spec.action_space)}."
            )

    def init(self, key: Key[Array, ""], agent: Agent, spec: Spec) -> Curriculum | tuple[()]:
        if self.schedule == "random":
            return ()
        running = jnp.zeros(agent.num_envs * spec.num_agents)
        return Curriculum(jnp.int32(0), jnp.float32(-jnp.inf), jnp.float32(0), jnp.int32(0), running)

    def init_hidden(self, agent: Agent, spec: Spec) -> Progress:
        return Progress(jnp.int32(0), jnp.int32(0), jnp.int32(0), self.remember(spec))

    def remember(self, spec: Spec) -> PyTree[Array]:
        """Return the guide's own memory at the start of an episode."""
        return self.policy[0].init_hidden(spec) if self.trained else ()

    def lead(
        self, hidden: PyTree[Array], observation: PyTree[Array], key: Key[Array, ""]
    ) -> tuple[PyTree[Array], PyTree[Array]]:
        """Return the guide's action and its memory after it."""
        if not self.trained:
            return self.policy(observation, key), hidden
        guide, guide_state = self.policy
        return guide.act(guide_state, ActInputs(hidden, observation, key, explore=False))[:2]

    def guided_steps(self, state: Curriculum | tuple[()], key: Key[Array, ""]) -> Int[Array, ""]:
        """Return the number of the guide's steps in an episode that begins now."""
        if self.schedule == "random":
            return jax.random.randint(key, (), 0, self.steps + 1)
        assert isinstance(state, Curriculum)
        left = self.steps * (self.stages - state.stage)
        return (left + self.stages - 1) // self.stages  # rounded up: 0 only when all stages are passed

    def act(
        self, state: Curriculum | tuple[()], hidden: HiddenState, observation: PyTree[Array], moment: ActContext
    ) -> Decision:
        agent_key, guide_key, steps_key = jax.random.split(moment.key, 3)
        progress: Progress = hidden.behaviour
        begins = progress.time == 0
        guided = jnp.where(begins, self.guided_steps(state, steps_key), progress.guided)
        stage = jnp.where(begins, state.stage if isinstance(state, Curriculum) else 0, progress.stage)
        own, memory, policy_info = moment.own(hidden.agent, observation, agent_key)
        led, guide_memory = self.lead(progress.guide, observation, guide_key)
        leads = progress.time < guided
        action = jax.tree.map(lambda led, own: jnp.where(leads, led, own).astype(own.dtype), led, own)
        source = jnp.where(leads, GUIDE, AGENT).astype(jnp.int32)
        if self.trained:
            guide_memory = self.policy[0].observe_action(self.policy[1], guide_memory, action)
        progress = Progress(progress.time + 1, guided, stage, guide_memory)
        return Decision(action, HiddenState(memory, progress), policy_info, source, behaviour_info=stage)

    def report(self, state: Curriculum | tuple[()], rollout: Experience, moment: ActContext) -> Curriculum | tuple[()]:
        if self.schedule == "random":
            return state
        assert isinstance(state, Curriculum)

        # On the host an episode may begin before the report that ends a stage, and end after it.
        speaks = rollout.counts & (rollout.behaviour_info == state.stage)

        def hear(state: Curriculum, step: tuple[Float[Array, " env"], Bool[Array, " env"], Bool[Array, " env"]]):
            reward, ended, speaks = step
            running = state.running + reward
            heard = ended & speaks
            return state._replace(
                total=state.total + jnp.where(heard, running, 0.0).sum(),
                number=state.number + heard.sum(),
                running=jnp.where(ended, 0.0, running),
            ), None

        state, _ = jax.lax.scan(hear, state, (rollout.reward, rollout.ended, speaks))
        mean = state.total / jnp.maximum(state.number, 1)
        judged = state.number >= self.episodes
        # Nothing is asked of the first judgement: minus infinity less its share of infinity is not a number.
        standard = jnp.where(jnp.isfinite(state.best), state.best - self.tolerance * jnp.abs(state.best), -jnp.inf)
        passed = judged & (mean >= standard) & (state.stage < self.stages)
        return Curriculum(
            stage=state.stage + passed,
            best=jnp.where(judged, jnp.maximum(state.best, mean), state.best),
            total=jnp.where(judged, 0.0, state.total),
            number=jnp.where(judged, 0, state.number),
            running=state.running,
        )

    def truncate(self, state: Curriculum | tuple[()], agent: Agent, clock: Clock) -> Curriculum | tuple[()]:
        return state._replace(running=jnp.zeros_like(state.running)) if isinstance(state, Curriculum) else state
