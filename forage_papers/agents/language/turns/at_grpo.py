"""AT-GRPO: answers of one role to the same conversation are compared as a group, turn after turn.

Zhao, Hu, Wang, Hou, Zhang, Ding, Zhao (2025), "Stronger Together: On-Policy Reinforcement Learning for Collaborative
LLMs", arXiv 2510.11062. Language agents with several roles take turns. From one state K texts of the role whose turn
it is are drawn, each is paid at once, team and role together, and the episode goes on from the best. So there is a
group for each problem, turn and role, whose texts all follow the same prompt, and with r the rewards of a group

    A = (r - mean r) / deviation r

is the advantage of every token of a text, in a clipped loss that is a mean over tokens. There is one policy for all
roles, or one of each role, which learns from its own turns alone.

As in the authors' program (pettingllms-ai/PettingLLMs: trainer/multi_agents_execution_engine.py,
`generate_env_idx_rollout`; trainer/multi_agents_ppo_trainer.py, `_assign_consistent_uids`). That the episode goes on
from the best is done by the starts (`--starts.onward best`), and a turn is paid by the environment
(`text:addition --env.roles true`, `forage/environments/text/workflow.py`). There all roles write in a turn before any
is chosen; here a turn is of one role, as in the paper's figures. The paper's pages could be looked up in excerpts
alone.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.agents.language.base import AnswerRows, LanguageState
from forage.agents.language.grpo import GRPO, LossInputs
from forage.core.ports import ActInputs, Metrics
from forage.core.ports.needs import Choices, Unused
from forage.core.ranges import check_minibatches
from forage.core.spaces import Tokens
from forage.core.types import Batch, Clock, ForageError, Spec
from forage.nn.language.generate import ALONE, SharedPrefix
from forage.nn.transformer import Transformer
from forage.ops.tokens.advantages import all_alike

POLICIES = ("shared", "own")


class RolesState(NamedTuple):
    """State with a policy for each role."""

    network: tuple[Transformer, ...]  # of each role
    optimiser: tuple[Any, ...]
    reference: Transformer | tuple[()]
    end: Int[Array, ""]
    known: Bool[Array, " vocabulary"]

    def role_state(self, role: int) -> LanguageState:
        """Return the state of one role's policy."""
        return LanguageState(self.network[role], self.optimiser[role], self.reference, self.end, self.known)


class ATGRPO(GRPO):
    """GRPO with a group for each role and turn of a workflow (Zhao et al., 2025, arXiv 2510.11062)."""

    leaves_out: ClassVar[bool] = False
    acts_either_way: ClassVar[bool] = True
    example: ClassVar[str] = "forage train at-grpo text:addition --env.level 5 --env.tools calculator --env.roles true"
    replays: ClassVar[bool] = False
    choices: ClassVar[Choices] = {"policies": POLICIES}
    unused: ClassVar[Unused] = {"overlong_buffer kl_placement": "AT-GRPO compares single turns"}

    aggregation: str = equinox.field(static=True, default="token-mean")  # how losses of tokens become one number
    policies: str = equinox.field(static=True, default="shared")  # shared, one for all roles, or own, one of each role:
    # with `rank` the same weights with other adapters, else other weights

    @property
    def starts_options(self) -> dict[str, Any]:
        return {"onward": "best"}

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if self.policies == "shared":
            return
        roles = self.roles(spec)
        if not roles:
            raise ForageError(
                f"Observations of {spec.name} do not say whose turn it is, so no role has a policy of its own; use "
                f"policies=shared, or text:addition --env.tools calculator --env.roles true."
            )
        check_minibatches(self, self.num_envs * self.rollout_length // roles, "texts of a role")

    def roles(self, spec: Spec) -> int:
        """Return the number of roles that take turns; 0 if observations have no role."""
        role = dict(spec.observation_space).get("role")  # type: ignore[call-overload]
        return int(role.n) if isinstance(role, spaces.Discrete) else 0

    def init(self, key: Key[Array, ""], spec: Spec) -> Any:
        if self.policies == "shared":
            return super().init(key, spec)
        states = [super(ATGRPO, self).init(one, spec) for one in jax.random.split(key, self.roles(spec))]
        return RolesState(
            tuple(state.network for state in states), tuple(state.optimiser for state in states), *states[0][2:]
        )

    def act(self, state: Any, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        """Write a turn by the policy of the current role; all other policies read and write empty texts."""
        if not isinstance(state, RolesState):
            return super().act(state, inputs)
        found: Any = None
        for role in range(len(state.network)):
            mine = inputs.observation["role"] == role
            read = inputs.observation | {"context": jnp.where(mine, inputs.observation["context"], Tokens.PAD)}
            policy = state.role_state(role)._replace(optimiser=(), reference=())
            tokens, _, policy_info = super().act(policy, inputs.replace(observation=read))
            now = tokens, policy_info
            found = now if found is None else jax.tree.map(lambda a, b, mine=mine: jnp.where(mine, a, b), now, found)
        return found[0], inputs.hidden, found[1]

    def learn(
        self, state: Any, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[Any, Metrics, Float[Array, " env"]]:
        paid = batch.experience.reward  # turn env
        lesson = self.assign_credit(batch, self.collect_answers(batch), paid.reshape(-1, self.group_size))
        rate, wrote = self.rate(clock), lesson.rows.wrote.any(1)
        roles = len(state.network) if isinstance(state, RolesState) else 1
        if roles == 1:
            state, metrics = self.descend(state, self.with_log_probabilities(state, lesson), rate, key)
        else:
            after, found = [], []
            for role in range(roles):
                policy, own = state.role_state(role), self.turns_of(lesson, role, roles)
                policy, said = self.descend(
                    policy, self.with_log_probabilities(policy, own), rate, jax.random.fold_in(key, role)
                )
                after.append(policy)
                found.append(said)
            state = state._replace(
                network=tuple(one.network for one in after), optimiser=tuple(one.optimiser for one in after)
            )
            metrics = jax.tree.map(lambda *each: jnp.stack(each).mean(), *found)
        counts = wrote.reshape(paid.shape)
        alike = all_alike(paid.reshape(-1, self.group_size)) & counts.reshape(-1, self.group_size).any(1)
        each = jnp.where(counts, paid, 0).sum(1) / jnp.maximum(counts.sum(1), 1)
        said = {
            "reward": paid.sum(0).mean(),
            "zero_variance": alike.sum() / jnp.maximum(counts.reshape(-1, self.group_size).any(1).sum(), 1),
            "length": lesson.rows.wrote.sum() / jnp.maximum(wrote.sum(), 1),
        }
        said |= {f"reward_turn_{turn + 1}": each[turn] for turn in range(self.rollout_length)}
        return state, metrics | said, jnp.abs(lesson.advantage).reshape(paid.shape).mean(0)

    def assign_credit(self, batch: Batch, lesson: LossInputs, reward: Float[Array, "group answer"]) -> LossInputs:
        """Return the lesson with the advantage of each text in its group. `reward`: of each turn, turn after turn.

        Turns that are left when an episode is over are in no mean and no deviation.
        """
        there = lesson.rows.wrote.any(1).reshape(reward.shape)
        advantage, weight = self.answer_advantages(reward, there=there)
        weight = jnp.broadcast_to(weight, reward.shape).reshape(-1) * lesson.weight
        return lesson._replace(advantage=advantage.reshape(-1, 1), weight=weight)

    def shared_prefix(self, rows: AnswerRows) -> SharedPrefix:
        return (
            ALONE if self.rollout_length > 1 else super().shared_prefix(rows)
        )  # episodes go on from the best of others

    def turns_of(self, lesson: LossInputs, role: int, roles: int) -> LossInputs:
        """Return the texts of one role, as roles take turns in order."""

        def own(x: Array) -> Array:
            turns = x.reshape(self.rollout_length, -1, *x.shape[1:])[role::roles]
            return turns.reshape(-1, *x.shape[1:])

        return jax.tree.map(own, lesson)
