"""AttnRL: answers branch, one update later, at the steps that later steps attend to.

Liu, Wang, Shi, Xie, An, Zhang, Zhao, Gu, Lin, Hu, Li, Zhang, Zhou, Gai (2025), "Attention as a Compass: Efficient
Exploration for Process-Supervised RL in Reasoning Models", arXiv 2509.26628. Three things are its own:

- Answers are branched at steps of great forward context influence (`forage/ops/tokens/influence.py`), which the policy
  that wrote them computes in one pass over its answers.
- How many answers of a prompt are branched, and how many prompts a rollout poses, adapts
  (the starts `attention-branches`).
- A rollout has the first answers to new prompts and those that go on from the last rollout's, so each update takes one
  round of generation. First answers are one update older, and their ratios are to the policy that wrote them.

Advantages are TreeRL's, with r the reward of a leaf and V the mean over the leaves that share a token:

    A = (V - V(root) + V - V(parent)) / sqrt(number of leaves that share it)

As in the authors' program (RyanLiu112/AttnRL: recipe/attnrl/attnrl_core_algos.py, attnrl_ray_trainer_off.py), answers
that were not branched count in V(root) and are not learned from, nor are prompts whose other answers have one reward.
There a token that n leaves share stands n times in the batch; here once, with n times the advantage. Published are
6 answers, 2 places and 2 others from each, two steps a rollout, and a divergence of 0.001, which is 0 here unless
given. The paper's pages could be looked up in excerpts alone; numbers are those of the program.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.agents.language.base import AnswerRows, LanguageState
from forage.agents.language.grpo import GRPO, LossInputs
from forage.core.ports import ActInputs, Branching, Metrics
from forage.core.ports.needs import Needs, Unused
from forage.core.ranges import Range, Ranges
from forage.core.spaces import Tokens
from forage.core.types import AGENT, Batch, Clock, Spec
from forage.nn.transformer import Transformer
from forage.ops.rows import concatenate_rows
from forage_papers.ops.tokens.influence import forward_influence, mixed, steps_between


class FirstAnswers(NamedTuple):
    """The first answers of a rollout, kept until their branches are written."""

    rows: AnswerRows
    reward: Float[Array, " env"]
    prompt: Int[Array, " env"]  # -1 for those that are none
    rollout: Int[Array, ""]  # its number; -1 before the first


class AttnState(NamedTuple):
    """State of AttnRL: a language agent's state, and the answers that wait for their branches."""

    network: Transformer
    optimiser: Any
    reference: Transformer | tuple[()]
    end: Int[Array, ""]
    known: Bool[Array, " vocabulary"]
    begun: FirstAnswers


class AttnAux(NamedTuple):
    """Data stored with an answer's tokens."""

    log_probability: Float[Array, " time"]  # of each token, as it was drawn
    temperature: Float[Array, " time"]
    influence: Float[Array, " time"]  # of the step that a token begins, on later ones; below 0 where it begins none


class AttnRL(GRPO):
    """Trees of answers that branch at points of high attention (Liu et al., 2025, arXiv 2509.26628)."""

    leaves_out: ClassVar[bool] = False
    acts_either_way: ClassVar[bool] = True
    example: ClassVar[str] = "forage train attn-rl text:countdown --env.branches true"
    usual_starts: ClassVar[str] = "attention-branches"
    replays: ClassVar[bool] = False
    whole_episodes: ClassVar[bool] = False  # all that a rollout holds is one answer of each environment
    needs_start_ids: ClassVar[bool] = True
    ranges: ClassVar[Ranges] = {
        **GRPO.ranges,
        "rollout_length": Range(1, 1),
        "places": Range(1),
        "times": Range(1),
        "distance": Range(1),
        "breaks": Range(0),
    }
    needs: ClassVar[Needs] = Needs(single_turn=True)
    unused: ClassVar[Unused] = {
        "advantage overlong_buffer best_of kl_placement zero_variance_groups": "AttnRL has its own advantages"
    }

    clip_low: float | None = 0.2  # how far below 1 a ratio is followed, as published
    clip_high: float | None = 0.28  # how far above 1 a ratio is followed, as published
    num_envs: int = equinox.field(static=True, default=120)  # answers to a rollout, first ones and others together
    group_size: int = equinox.field(static=True, default=6)  # answers that begin with a prompt, as published
    minibatches: int = equinox.field(static=True, default=2)  # equal parts of a rollout, each for a step, as published
    aggregation: str = equinox.field(static=True, default="token-mean")  # how losses of tokens become one number
    places: int = equinox.field(static=True, default=2)  # steps that an answer is branched at, as published
    times: int = equinox.field(static=True, default=2)  # answers that go on from each of them, as published
    distance: int = equinox.field(static=True, default=4)  # steps between one and the first that counts as influenced
    # by it, as published
    breaks: tuple[int, ...] = equinox.field(static=True, default=())  # tokens that end a step of an answer, by the
    # tokenizer's numbers; none, as where an answer has none of them: each token is a step

    @property
    def branching(self) -> Branching:
        return Branching(self.places * self.times, True, late=True)

    @property
    def starts_options(self) -> dict[str, Any]:
        return {"places": self.places, "times": self.times}

    def init(self, key: Key[Array, ""], spec: Spec) -> AttnState:  # type: ignore[override]
        state = super().init(key, spec)
        reads, writes = spec.observation_space["context"], spec.action_space  # type: ignore[index]
        assert isinstance(reads, Tokens) and isinstance(writes, Tokens)
        envs, new, whole = self.num_envs, writes.length, reads.length + writes.length
        nothing = jnp.zeros((envs, new))
        rows = AnswerRows(
            jnp.zeros((envs, whole), jnp.int32), jnp.zeros((envs, whole), bool), nothing > 0, nothing, nothing + 1
        )
        none = jnp.full(envs, -1, jnp.int32)
        return AttnState(*state, FirstAnswers(rows, nothing[:, 0], none, jnp.int32(-1)))

    def act(self, state: AttnState, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:  # type: ignore[override]
        """Write an answer; in training, read it once more for the influence of its steps."""
        policy = LanguageState(state.network, (), (), state.end, state.known)
        tokens, hidden, policy_info = super().act(policy, inputs)
        if not inputs.in_rollout:
            return tokens, hidden, policy_info
        whole, new = jnp.concatenate([inputs.observation["context"], tokens]), len(tokens)
        attention = state.network.attention(jnp.maximum(whole - 1, 0)[None], (whole != Tokens.PAD)[None])
        step = steps_between(jnp.maximum(tokens - 1, 0), self.breaks)
        influence = forward_influence(attention[:, 0, :, -new:, -new:], step, tokens != Tokens.PAD, self.distance)
        return tokens, hidden, AttnAux(policy_info.log_probability, policy_info.temperature, influence)

    def learn(  # type: ignore[override]
        self, state: AttnState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[AttnState, Metrics, Float[Array, " env"]]:
        rows, experience, begun = self.rows(batch), batch.experience, state.begun
        reward, mark = experience.reward[0], jax.tree.map(lambda x: x[0], experience.start_id)
        own = (experience.source == AGENT)[0]
        # After a failure the answers before may not be those that these go on from
        follows = (mark.rollout == begun.rollout + 1).all()
        stem = jnp.where(follows, mark.stem, -1)
        new = rows.wrote.shape[1]
        trunk, other, weight = branch_advantages(begun.prompt, begun.reward, stem, mark.length, reward, new)

        both = concatenate_rows(begun.rows, rows)
        advantage = jnp.concatenate([trunk, jnp.broadcast_to(other[:, None], (len(other), new))])
        older = jnp.arange(len(advantage)) < len(trunk)
        weight = weight * jnp.concatenate([jnp.ones_like(own), own])
        lesson = LossInputs(both, advantage, weight, both.sampled, jnp.zeros_like(both.sampled), older)
        policy = LanguageState(*state[:-1])
        lesson = self.with_log_probabilities(policy, lesson)
        policy, metrics = self.descend(policy, lesson, self.rate(clock), key)

        first = (mark.stem < 0) & (mark.prompt >= 0)
        now = FirstAnswers(rows, reward, jnp.where(first & own, mark.prompt, -1), mark.rollout[0])
        branched = jnp.maximum((stem >= 0).sum(), 1)
        said = {
            "reward": jnp.where(first, reward, 0).sum() / jnp.maximum(first.sum(), 1),
            "branch_reward": jnp.where(stem >= 0, reward, 0).sum() / branched,
            "prefix_length": jnp.where(stem >= 0, mark.length, 0).sum() / branched,
            "prompts": first.sum() / self.group_size,
            "learned": (weight > 0).mean(),
            "length": rows.wrote.sum() / len(rows.wrote),
        }
        return AttnState(*policy, now), metrics | said, jnp.abs(other)


def branch_advantages(
    prompt: Int[Array, " env"],
    first: Float[Array, " env"],
    stem: Int[Array, " env"],
    length: Int[Array, " env"],
    reward: Float[Array, " env"],
    new: int,
) -> tuple[Float[Array, "env new"], Float[Array, " env"], Float[Array, " both"]]:
    """Return advantages of first answers at each token, those of their branches, and the weights of both.

    `prompt`, `first`: of the first answers, the prompt, -1 for none, and the reward. `stem`, `length`, `reward`: of the
    others, whose answer they go on from, -1 for none, after how many tokens, and what they were paid.
    """
    begun, goes_on, token = prompt >= 0, stem >= 0, jnp.arange(new)
    on = (jnp.arange(len(prompt))[:, None] == jnp.where(goes_on, stem, -1)).astype(jnp.float32)  # trunk, other
    goes_on &= begun[stem]
    shared = (length[:, None] > token).astype(jnp.float32)  # tokens that an other shares with its trunk
    count = 1 + on @ shared
    value = (first[:, None] + on @ (reward[:, None] * shared)) / count

    # The root: all leaves of the prompt
    alike = ((prompt[:, None] == prompt) & begun[:, None]).astype(jnp.float32)
    leaves = alike @ (1 + on.sum(1))
    root = alike @ (first + on @ reward) / jnp.maximum(leaves, 1)

    # The value of the part before the last place: the root's in an answer's first part, and from a prefix of no tokens
    place = (on @ (length[:, None] == token)) > 0
    last = jax.lax.cummax(jnp.where(place, token, 0), axis=1)
    before = jnp.take_along_axis(value, jnp.maximum(last - 1, 0), axis=1)
    parent = jnp.where(last > 0, before, root[:, None])
    trunk = (2 * value - root[:, None] - parent) * jnp.sqrt(count)
    above = jnp.where(length > 0, value[stem, jnp.maximum(length - 1, 0)], root[stem])
    other = 2 * reward - root[stem] - above

    whose = jnp.concatenate([prompt, jnp.where(goes_on, prompt[stem], -1)])
    learned = mixed(whose, jnp.concatenate([first, reward]), jnp.concatenate([begun & (on.sum(1) > 0), goes_on]))
    return trunk, other, learned.astype(jnp.float32)
