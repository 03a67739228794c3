"""Rewards of right and wrong answers by their lengths, so that reasoning grows no longer than it needs to."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.core.ports import Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges, check_order
from forage.core.types import Clock, Experience, Spec
from forage.rewards.verifiers.base import TextRewards, at_the_end, last_info, lengths, wrote
from forage_papers.ops.tokens.lengths import cosine_reward, repeated_share


class CosineLength(TextRewards):
    """Rewards between two bounds by half a cosine of the length: short right answers are best, short wrong ones worst.

        r(n) = last + (first - last) (1 + cos(pi n / longest)) / 2        n tokens of at most `longest`

    from `right_first` to `right_last` for right answers, and from `wrong_first` to `wrong_last` for wrong ones, less
    `repetition` times the share of a wrong answer's n-grams of `ngram` tokens that it has had before. An answer within
    `margin` tokens of the longest gets `exceeded`. Right is an episode whose reward is `right` or more; what `inner`
    gives is not paid beside. Lengths count the tokens of all its turns.

    Yeo, Tong, Niu, Neubig, Yue (2025), "Demystifying Long Chain-of-Thought Reasoning in LLMs", arXiv 2502.03373, as in
    the authors' `openrlhf/reward/cosine.py` and `repetition.py` (eddycmu/demystify-long-cot), whose bounds of section
    4.2, margin and n-grams these are; there n-grams are of words. Their penalty of repeated tokens one by one, with a
    discount of its own, and the mixture with noisy data of section 5 are not here. The paper's own pages could not be
    looked up.
    """

    example: ClassVar[str] = "forage train grpo text:countdown --rewards cosine-length --rewards.margin 1"
    ranges: ClassVar[Ranges] = {
        "right": Range(),
        "repetition": Range(0),
        "margin": Range(0),
        "ngram": Range(1),
    }

    right_first: float = 2.0  # reward of a right answer of no length
    right_last: float = 1.0  # reward of a right answer of the longest length
    wrong_first: float = -10.0  # reward of a wrong answer of no length
    wrong_last: float = 0.0  # reward of a wrong answer of the longest length
    exceeded: float = -10.0  # reward of an answer that is too long, right or wrong
    right: float = 1.0  # reward of an episode from which its answer counts as right
    repetition: float = 0.0  # price of a wrong answer that only repeats itself
    margin: int = equinox.field(static=True, default=16)  # tokens before the longest from which an answer is too long
    ngram: int = equinox.field(static=True, default=20)  # tokens that are a repetition where they come again

    def check(self, spec: Spec) -> None:
        super().check(spec)
        check_order(self, "right_last", "right_first", equal=True)
        check_order(self, "wrong_first", "wrong_last", equal=True)

    def relabel(self, state: Any, experience: Experience) -> Experience:
        given = self.inner.relabel(state, experience)
        right, length = given.reward.sum(0) >= self.right, lengths(experience)
        turns, _, new = experience.action.shape
        bounds = (self.right_first, self.right_last), (self.wrong_first, self.wrong_last)
        paid = cosine_reward(length, right, turns * new, bounds, self.exceeded, self.margin)
        price = jnp.where(right | (length + self.margin >= turns * new), 0.0, self.repetition)
        paid = paid - price * self.repetitions(experience)
        return given._replace(reward=at_the_end(experience, paid))

    def repetitions(self, experience: Experience) -> Float[Array, " env"]:
        """Return the share of each episode's n-grams that it has had before."""
        tokens, there = (jnp.moveaxis(x, 0, 1) for x in (experience.action, wrote(experience)))
        tokens, there = (x.reshape(len(x), -1) for x in (tokens, there))
        order = jnp.argsort(~there, axis=1, stable=True)
        tokens, there = (jnp.take_along_axis(x, order, 1) for x in (tokens, there))
        return jax.lax.map(lambda one: repeated_share(one[0], one[1], self.ngram), (tokens, there))


class Searching(TextRewards):
    """RLSP's two signals: whether the answer is right, and how much was searched for it.

        r = [right] - price / length              of an answer that can be read, -0.5 - price / length of another

    The second term is the simplest reward for exploring, which only asks for more steps: it falls off as answers become
    longer, so that it never pays as much as being right once they are. Right is what the verifier finds above 1/2;
    what `inner` gives is not paid beside. Lengths count the tokens of all turns.

    Ye, Pham, Zhang, Gopi, Peng, Li, Kulkarni, Inan (2025), "On the Emergence of Thinking in LLMs I: Searching for the
    Right Intuition", arXiv 2502.06773, as in the authors' `openrlhf/cli/orm_server_efficient.py` (GuanghaoYe/Emergence-
    of-Thinking), whose price of 1000 is for reasoning of thousands of tokens, counted there as a quarter of the letters
    in front of the answer. Before it they fine-tune on traces of reasoning (`--from` a run of `sft`) and learn by PPO
    (`ppo-language`); their second kind of exploration reward, a language model that judges creativity with a weight of
    0.2, is not here. The paper's own pages could not be looked up.
    """

    example: ClassVar[str] = "forage train ppo-language text:countdown --rewards searching --rewards.price 1"
    ranges: ClassVar[Ranges] = {"price": Range(0)}
    needs: ClassVar[Needs] = Needs(
        info=("format", "truth"),
        reason="Searching pays for answers that a verifier can read",
        instead="use a problem such as text:countdown",
    )

    price: float = 1000.0  # what an answer of one token is paid less than a long one; for answers of thousands of
    # tokens, and less for shorter ones
    unread: float = -0.5  # reward of an answer that cannot be read

    def relabel(self, state: Any, experience: Experience) -> Experience:
        given = self.inner.relabel(state, experience)
        readable = last_info(experience, "format") > 0.5
        right = (last_info(experience, "truth") > 0.5).astype(jnp.float32)
        paid = search_reward(right, readable, lengths(experience), self.price, self.unread)
        return given._replace(reward=at_the_end(experience, paid))

    def learn(
        self, state: Any, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[Any, PyTree[Array], Metrics]:
        state, rewards_info, metrics = self.inner.learn(state, rollout, clock, key)
        return state, rewards_info, metrics | {"truth": last_info(rollout, "truth").mean()}


def search_reward(right: Array, readable: Array, length: Array, price: Any, unread: Any) -> Float[Array, " env"]:
    """Compute [right] or the reward of an unread answer, less the price over the length; 0 tokens count as one."""
    return jnp.where(readable, right, unread) - price / jnp.maximum(length, 1)
