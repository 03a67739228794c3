"""iStar: rewards of turns by an implicit process reward model, learned from whole conversations."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from forage.agents.language.base import AnswerRows
from forage.agents.language.grpo import GRPO, LossInputs, outcomes
from forage.core.mesh import ONE, Shape
from forage.core.ports import Metrics
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges, check_minibatches
from forage.core.types import Batch, Clock, Spec
from forage.nn.language.generate import SharedPrefix
from forage.nn.language.memory import tree_bytes
from forage.nn.transformer import Transformer
from forage.ops.rows import merge_time
from forage.ops.tokens.masks import sequence_sum
from forage_papers.agents.language.kept import copy_first_policy, keep, learn_second
from forage_papers.ops.tokens.outcome import paired_preference, step_advantage


class Conversations(NamedTuple):
    """Conversations of whole groups, leaves `group run turn ...`."""

    rows: AnswerRows
    old: Float[Array, "group run turn new"]  # log-probability of each token under the policy that wrote it
    right: Bool[Array, "group run"]


class IStar(GRPO):
    """Implicit step rewards for agents (iStar): rewards of turns by a model that prefers successful conversations.

        r_t    = beta sum over the tokens of turn t of (log rho(token) - log old(token)) A      = (outcome - mean of the
        others' outcomes) + step_share (r_t / largest |r| - mean of all others' in the group) loss   = the clipped loss
        of A at each token

    rho, the process reward model, begins as the first policy, and old is the policy that wrote. After each rollout it
    learns by DPO of whole conversations: in each group successful ones are paired with failed ones, and their values
    are the means of r_t over their turns (`ops/tokens/outcome.paired_preference`). The rewards
    of a rollout are those of rho before that. Success is an outcome above 0.

    Liu, Wang, Wu, Huang, Li, Zhang, Jiao (2025), "Agentic Reinforcement Learning with Implicit Step Rewards", arXiv
    2509.19199, first called "Online Process Reward Learning for Agentic Reinforcement Learning", as in the authors'
    `istar/core_istar.py`, `istar/dp_rm.py` and `examples/istar_trainer/run_webshop.sh` (Tongyi-ConvAI/Qwen-Character),
    whose beta 0.05, share 1, leave-one-out advantages, 8 conversations and step size of twice the policy's these are.
    There the mean of the others' turns is of the first turn of each conversation, here of all turns, as the program's
    words have it; its price of 0.1 for actions that are not valid is the environment's. The paper's own pages could not
    be looked up.
    """

    example: ClassVar[str] = "forage train istar text:guess"
    corrects_sampler: ClassVar[bool] = False
    replays: ClassVar[bool] = False
    ranges: ClassVar[Ranges] = {
        **GRPO.ranges,
        "beta": Range(0, above=True),
        "step_share": Range(0),
        "judge_rate": Range(0, above=True),
    }
    unused: ClassVar[Unused] = {"kl_placement": "iStar pays turns by a model of its own"}

    beta: float = 0.05  # reward for a nat of log-ratio; smaller lets the process reward model move further
    step_share: float = 1.0  # weight of the turns' advantages beside the outcome's; 0: the outcome alone
    judge_rate: float = 2.0  # step size of the process reward model, as a multiple of the policy's
    advantage: str = equinox.field(static=True, default="rloo")
    aggregation: str = equinox.field(static=True, default="token-mean")

    def check(self, spec: Spec) -> None:
        super().check(spec)
        check_minibatches(self, self.num_envs // self.group_size, "groups")

    def init(self, key: Key[Array, ""], spec: Spec) -> Any:
        return keep(super().init(key, spec), copy_first_policy(self))

    def working_bytes(self, spec: Spec, state: Any, shape: Shape = ONE) -> dict[str, int]:
        found = super().working_bytes(spec, state, shape)
        return found | {"gradients": found["gradients"] + 2 * tree_bytes(state.kept.weights, shape)}

    def group_turns(self, x: Array) -> Array:
        """Return rows, turn after turn, as leaves `group run turn ...`."""
        x = x.reshape(self.rollout_length, -1, self.group_size, *x.shape[1:])
        return jnp.moveaxis(x, 0, 2)

    def learn(
        self, state: Any, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[Any, Metrics, Float[Array, " env"]]:
        learned: Any = super().learn(state, batch, clock, key)
        after, metrics, size = learned
        rows = self.rows(batch)
        right = (outcomes(batch.experience) > 0).reshape(-1, self.group_size)
        # The policy that wrote scores its own tokens as they were drawn
        items = Conversations(jax.tree.map(self.group_turns, rows), self.group_turns(rows.sampled), right)

        def loss(judge: Transformer, part: Conversations) -> tuple[Float[Array, ""], Metrics]:
            shape = part.rows.wrote.shape[:3]
            flat, old = merge_time(merge_time(part.rows)), merge_time(merge_time(part.old))
            paid = self.turn_rewards(judge, after, flat, old, self.whole_groups).reshape(shape)
            there = part.rows.wrote.any(-1)
            value = jnp.where(there, paid, 0.0).sum(2) / jnp.maximum(there.sum(2), 1)
            found, pairs = paired_preference(value, part.right)
            return found, {"judge_loss": found, "pairs": pairs}

        rate = self.rate(clock) * self.judge_rate
        judge, said = learn_second(self, state.kept, loss, items, rate, self.updates, jax.random.fold_in(key, 3))
        return after._replace(kept=judge), metrics | said, size

    @property
    def whole_groups(self) -> SharedPrefix:
        """Return the prefix that rows of whole groups share, a conversation's turns one after another."""
        turns = self.rollout_length
        return SharedPrefix(turns=turns, by_turn=False) if turns > 1 else SharedPrefix(prompts=self.group_size)

    def turn_rewards(
        self, judge: Transformer, state: Any, rows: AnswerRows, old: Float[Array, "row new"], together: SharedPrefix
    ) -> Float[Array, " row"]:
        """Return the reward of each turn by the process reward model. `together`: as in `score_tokens`."""
        now = self.score_tokens(judge, state, rows, together)[0]
        return self.beta * sequence_sum(now - old, rows.wrote)

    def with_log_probabilities(self, state: Any, lesson: LossInputs) -> LossInputs:
        """Return the lesson with log-probabilities, and the reward of each turn as `more`."""

        def pay(rows: AnswerRows) -> Float[Array, " row"]:
            return self.turn_rewards(state.kept.weights, state, rows, rows.sampled, self.shared_prefix(rows))

        return super().with_log_probabilities(state, lesson._replace(more=self.map_rows(pay, lesson.rows)))

    def assign_credit(self, batch: Batch, lesson: LossInputs, reward: Float[Array, "group answer"]) -> LossInputs:
        lesson = super().assign_credit(batch, lesson, reward)
        there = lesson.rows.wrote.any(1) & (lesson.weight > 0)
        paid = jnp.where(there, lesson.more, 0.0)
        paid = paid / (jnp.max(jnp.abs(paid)) + 1e-6)
        turn = step_advantage(self.group_turns(paid), self.group_turns(there))
        each = jnp.moveaxis(turn, 2, 0).reshape(-1, 1)
        return lesson._replace(advantage=lesson.advantage + self.step_share * each, more=())
