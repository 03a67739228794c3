"""DAgger: the learner's own actions lead to new states, and an expert labels them with actions to imitate."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Self

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from forage.core import prng, spaces
from forage.core.ports import ActContext, ActInputs, Agent, Behaviour, Decision, HiddenState
from forage.core.ports.checking import check_agent
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import AGENT, GUIDE, ForageError, Label, Spec


def as_expert(expert: Any) -> Any:
    """Make a bare function a pytree without leaves; anything else is one, or a name."""
    if callable(expert) and jax.tree_util.all_leaves([expert]):
        return jax.tree_util.Partial(expert)
    return expert


class DAgger(Behaviour):
    """The expert labels every state that is visited, and acts in fewer and fewer of them itself.

    At share x of the run an action is the expert's with probability beta = max(0, 1 - x / fraction), at each step anew,
    and the learner's otherwise. All labels are kept, whoever acted, and an agent that `imitates`, which is `bc`, learns
    from all of them: aggregated data sets, with a policy that goes on learning in place of one trained anew on each.

    `expert`: the directory of a run, whose agent plays its greedy policy; in Python also a function `(observation, key)
    -> action` or a pair `(agent, agent_state)`. The run's weights are in no checkpoint: the run is found again where it
    was, and refused where it has learned more since.

    Published, the policy of iteration i is mixed likewise with beta_i, which is 1 in the first iteration and may be 0
    in all others (section 3 of the paper as others tell it; the paper itself could not be looked up).

    Source: Ross, Gordon, Bagnell (2011), "A Reduction of Imitation Learning and Structured Prediction to No-Regret
    Online Learning", arXiv 1011.0686.
    """

    example: ClassVar[str] = "forage train bc CartPole-v1 --behaviour dagger --behaviour.expert runs/expert --steps 5k"
    ranges: ClassVar[Ranges] = {"fraction": Range(0, 1)}

    labels: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs(
        agents="one",
        ability="imitates",
        reason="learns from rewards, and an expert's labels are for an agent that imitates them",
        instead="use bc",
    )

    expert: str | Any = equinox.field(
        converter=as_expert
    )  # who says what should be done: a run's directory; in Python,
    # a function or a trained agent with its state
    fraction: float = 0.2  # share of the run over which the expert's share of the actions falls from 1 to 0
    sha256: str = equinox.field(static=True, default="")  # hash of the run's agents; taken when a run begins

    @property
    def names_run(self) -> bool:  # type: ignore[override]
        return isinstance(self.expert, str)

    def with_run_hash(self, hash_run: Callable[[str], tuple[str, str]]) -> Self:
        """Return the part with the hash of its expert's agents; a hash taken earlier stays, as the run may be gone."""
        if not self.names_run or self.sha256:
            return self
        expert, sha256 = hash_run(self.expert)
        return dataclasses.replace(self, expert=expert, sha256=sha256)

    def with_run(self, load_run: Callable[[str, str, Spec, str, str], Any], spec: Spec, learns: bool) -> Self:
        """Return the part with its expert in place of the name.

        A run that does not learn asks no expert, which may be gone: any action does.
        """
        if not self.names_run:
            return self
        if not learns:
            action = spaces.example(spec.action_space)
            return dataclasses.replace(self, expert=lambda observation, key: action)
        policy = load_run(self.expert, self.sha256, spec, "learn from it", "an expert")
        return dataclasses.replace(self, expert=(policy.agent, jax.tree.map(jnp.asarray, policy.state)))

    @property
    def trained(self) -> bool:
        """Return whether the expert is an agent with its state rather than a function."""
        return isinstance(self.expert, tuple) and len(self.expert) == 2 and isinstance(self.expert[0], Agent)

    @property
    def agent(self) -> Agent:
        """Return the agent of a `trained` expert."""
        pair: Any = self.expert
        return pair[0]

    def check(self, agent: Agent, spec: Spec) -> None:
        if isinstance(self.expert, str):
            return
        if not self.trained and not callable(self.expert):
            raise ForageError(
                f"An expert is a run's directory, a function of (observation, key) or a pair (agent, agent_state), not "
                f"{type(self.expert).__name__}."
            )
        if self.trained:
            check_agent(self.agent, spec)
            self.agent.check_unpaid("an expert")
        wanted, seen = spaces.example(spec.action_space), spaces.example(spec.observation_space)
        given = jax.eval_shape(lambda: self.expert_action(self.remember(spec), seen, prng.key(0))[0])
        if jax.tree.map(jnp.shape, given) != jax.tree.map(jnp.shape, wanted):
            raise ForageError(
                f"The expert's actions are not {spaces.describe_space(spec.action_space)}, which {spec.name} takes."
            )

    def init_hidden(self, agent: Agent, spec: Spec) -> PyTree[Array]:
        return self.remember(spec)

    def remember(self, spec: Spec) -> PyTree[Array]:
        """Return the expert's own memory at the start of an episode."""
        return self.agent.init_hidden(spec) if self.trained else ()

    def expert_action(
        self, hidden: PyTree[Array], observation: PyTree[Array], key: Key[Array, ""]
    ) -> tuple[PyTree[Array], PyTree[Array]]:
        """Return the expert's action and its memory after it."""
        expert: Any = self.expert
        if not self.trained:
            return expert(observation, key), hidden
        return self.agent.act(expert[1], ActInputs(hidden, observation, key, explore=False))[:2]

    def act(self, state: Any, hidden: HiddenState, observation: PyTree[Array], moment: ActContext) -> Decision:
        agent_key, expert_key, coin_key = jax.random.split(moment.key, 3)
        own, memory, _ = moment.own(hidden.agent, observation, agent_key)
        if isinstance(
            self.expert, str
        ):  # a run that only evaluates loads no expert, and never comes here but for shapes
            label, expert_memory = own, ()
        else:
            label, expert_memory = self.expert_action(hidden.behaviour, observation, expert_key)
        leads = jax.random.uniform(coin_key) < moment.clock.anneal(1.0, 0.0, self.fraction)
        label = jax.tree.map(lambda told, own: jnp.asarray(told).astype(own.dtype), label, own)
        action = jax.tree.map(lambda told, own: jnp.where(leads, told, own), label, own)
        if self.trained:
            pair: Any = self.expert
            expert_memory = self.agent.observe_action(pair[1], expert_memory, action)
        source = jnp.where(leads, GUIDE, AGENT).astype(jnp.int32)
        return Decision(action, HiddenState(memory, expert_memory), Label(label), source)
