"""OREO: policy and value learn from recorded answers with rewards by the soft Bellman equation."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from forage.agents.language.base import AnswerRows, LanguageState
from forage.agents.language.descent import descend
from forage.agents.language.ppo_language import Critic, ValuedState
from forage.agents.language.recorded import TextLearner, flat_answers, map_parts, recorded_rows
from forage.core.ports import Metrics
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Spec
from forage.nn.language import lora
from forage.nn.transformer import Transformer
from forage.ops.tokens.masks import sequence_mean
from forage.ops.tokens.supervised import distillation


class RewardedAnswers(NamedTuple):
    """Recorded answers with their rewards."""

    rows: AnswerRows
    reference: Float[Array, "row new"]  # log-probability of each token under the first policy
    reward: Float[Array, " row"]


def path_residuals(
    ratio: Float[Array, "row new"], value: Float[Array, "row new"], reward: Float[Array, " row"], beta: float | Array
) -> tuple[Float[Array, "row new"], Float[Array, "row new"]]:
    """Return the residual of the value and of the policy at each token.

    `ratio`: log pi / first of each token, 0 where none is. With S_t, the sum of ratios from token t on,

        value    V(s_t) - R + beta S_t                              in which S_t is fixed
        policy   V(s_t) - R + beta (ratio_t + S_{t+1})              in which V and S_{t+1} are fixed
    """
    togo = jnp.cumsum(ratio[:, ::-1], axis=1)[:, ::-1]
    fixed = jax.lax.stop_gradient
    of_value = value - reward[:, None] + beta * fixed(togo)
    return of_value, fixed(value) - reward[:, None] + beta * (ratio + fixed(togo - ratio))


class OREO(TextLearner):
    """OREO: offline reasoning optimisation (Wang and others, 2024, arXiv 2412.16145).

    Rows have `prompt`, `completion` and `reward`, or `label`, and no pairs. At the optimum of rewards with a divergence
    from the first policy, V(s_t) - R + beta sum_{i >= t} log pi(a_i) / first(a_i) is 0 at each token of an answer with
    the reward R. Value and policy go down the mean of its square over the tokens of an answer, each with the other
    fixed, and the policy's loss has in addition `divergence` KL(pi || first), summed over the vocabulary.

    Source: the authors' program, github.com/jwhj/OREO (`pcl_trainer.py`: `loss`, `dro_loss` and its `unbiased_kl`;
    `train_oreo.sh`: beta 0.03 and a divergence of 0.01). There critic and policy have optimisers of their own with the
    same step size; here they share one, so that the length of their joint gradient is cut. The critic begins as the
    first policy with a head of zeros. Search by the value at test time is `forage_papers.studies.value_search`.
    """

    example: ClassVar[str] = "forage train oreo --data scored.jsonl --model DIRECTORY"
    offline: ClassVar[bool] = True
    texts: ClassVar[tuple[str, ...]] = ("scored", "label")
    unused: ClassVar[Unused] = {"router_balance": "OREO has a loss of its own"}
    ranges: ClassVar[Ranges] = {**TextLearner.ranges, "beta": Range(0, above=True), "divergence": Range(0)}

    beta: float = 0.03  # weight of the divergence from the first policy in the value; smaller moves more
    divergence: float = 0.01  # weight of KL(pi || first) in the policy's loss

    @property
    def referred(self) -> bool:
        return True

    def init(self, key: Key[Array, ""], spec: Spec) -> ValuedState:  # type: ignore[override]
        state = super().init(key, spec)
        critic = jax.tree.map(jnp.copy, self.base_model.first(jnp.float32))
        head = jnp.zeros(critic.architecture.width)
        learned = self.split_frozen(state.network)[0], critic, head
        return ValuedState(*state._replace(optimiser=self.steps(1.0).init(learned)), Critic(critic, head))

    def masters(self, state: Any) -> Transformer:
        exact = super().masters(state)
        return exact if isinstance(exact, Transformer) else exact[0]

    def items(self, state: Any, batch: Batch) -> RewardedAnswers:
        rows, network = flat_answers(recorded_rows(batch)), self.reference_of(state)
        assert network is not None
        reference = map_parts(lambda part: self.score_recorded(network, part), rows, self.updates)
        return RewardedAnswers(rows, jax.lax.stop_gradient(reference), batch.experience.reward[0])

    def learn(  # type: ignore[override]
        self, state: ValuedState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[ValuedState, Metrics, Float[Array, " batch"]]:
        learned, fixed = self.split_frozen(state.network)

        def loss(learned: Any, items: RewardedAnswers, first: Bool[Array, ""]) -> tuple[Float[Array, ""], Metrics]:
            network = lora.combine_adapters(learned[0], fixed)
            return self.both_losses(network, learned[1], learned[2], state, items)

        whole = learned, *state.critic
        (learned, critic, head), inner, said = descend(
            loss,
            whole,
            state.optimiser,
            self.steps(self.text_rate(clock)),
            self.items(state, batch),
            self.epochs,
            self.updates,
            key,
        )
        network = lora.combine_adapters(learned, fixed)
        state = state._replace(network=network, optimiser=inner, critic=Critic(critic, head))
        return state, said, jnp.zeros(len(batch.weight))

    def text_loss(self, network: Transformer, state: Any, items: RewardedAnswers) -> tuple[Any, Metrics]:
        return self.both_losses(network, state.critic.network, state.critic.head, state, items)

    def both_losses(
        self, network: Transformer, critic: Transformer, head: Array, state: Any, items: RewardedAnswers
    ) -> tuple[Float[Array, ""], Metrics]:
        """Compute the sum of the losses of value and policy, and metrics."""
        rows, wrote = items.rows, items.rows.wrote
        value = self.compute_hidden(critic, rows).astype(jnp.float32) @ head
        ratio = jnp.where(wrote, self.score_recorded(network, rows) - items.reference, 0.0)
        of_value, of_policy = path_residuals(ratio, value, items.reward, self.beta)
        value_loss, policy_loss = (sequence_mean(x**2, wrote).mean() for x in (of_value, of_policy))
        apart = sequence_mean(self.divergences(network, state, rows), wrote).mean()
        loss = value_loss + policy_loss + self.divergence * apart
        return loss, {
            "loss": loss,
            "value_loss": value_loss,
            "policy_loss": policy_loss,
            "divergence": apart,
            "value": sequence_mean(value, wrote).mean(),
            "reward": items.reward.mean(),
        }

    def divergences(self, network: Transformer, state: LanguageState, rows: AnswerRows) -> Float[Array, "row new"]:
        """Compute KL(pi || first) before each token, summed over the vocabulary."""
        reference = self.reference_of(state)
        assert reference is not None
        first = jax.lax.stop_gradient(self.compute_hidden(reference, rows))

        def compare(own: Array, other: Array, mask: Array) -> Float[Array, "*token"]:
            return distillation(network.logits(own), reference.logits(other), mask, "reverse")

        inputs = self.compute_hidden(network, rows), first, rows.wrote
        return self.map_logits(compare, network.architecture.vocabulary, inputs)
