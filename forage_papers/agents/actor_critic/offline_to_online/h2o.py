"""Hybrid offline and online learning: data of a real system, and a simulator that deviates from it.

Niu, Sharma, Qiu, Li, Zhou, Hu, Zhan (2022), "When to Trust Your Simulator: Dynamics-Aware Hybrid Offline-and-Online
Reinforcement Learning", arXiv 2206.13464 (H2O). Transitions of a data set are real, those that the agent lives through
are simulated (`--memory mixed`). Two classifiers tell them apart, one by (s, a) and one by (s, a, s'), and so how much
likelier a step is in the real thing: log r = log p_real(s'|s, a) - log p_sim(s'|s, a) is the difference of the second
classifier's own two outputs, where its verdict is the softmax of the sum of both classifiers' outputs. Then

    critics   sum_i [ mean_real (Q_i - y)^2 + mean_sim min(r, 1) (Q_i - y)^2
              + conservatism (log sum_sim w exp Q_i(s, a) - mean_real Q_i(s, a)) ] / 2
    weights   w = u / sum u,  u = mean over k noisy s' of -log r, from 1e-10 to 10: the dynamics gap
    y         r + discount (1 - terminated) min_j Q'_j(s', a'), and policy and temperature as in SAC, on both kinds

so what the simulator gets wrong is learned from less, and its actions are made to look worse. Update, sizes and numbers
are those of the authors' program (t6-thu/H2O: SimpleSAC/sim2real_sac.py, sim2real_sac_main.py, Network/Weight_net.py);
the paper's tables could not be looked up. There u is at least 1e-45, which single precision takes for zero, and the
deviation of the noise on s' is that of all real observations; here it is that of the batch's.
"""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from forage.agents.actor_critic.base import UpdateInputs
from forage.agents.actor_critic.sac import SAC, SACState
from forage.core.ports import Metrics
from forage.core.ranges import Range, Ranges
from forage.core.types import DATASET, ForageError, Spec
from forage.nn.critics import ActionValue, CriticReport, each_value
from forage.nn.layers import MLP
from forage.ops.rows import weighted_mean

LEAST_GAP, MOST_GAP = 1e-10, 10.0
LEAST_RATIO = 1e-5  # of p_real / p_sim, as in the authors' program; the most is 1


class Classifiers(equinox.Module):
    """Two networks with two outputs each, real and simulated, within -2 and 2."""

    by_action: MLP  # of (s, a)
    by_step: MLP  # of (s, a, s')

    def __init__(self, key: Key[Array, ""], observation: int, action: int, sizes: tuple[int, ...]):
        keys = jax.random.split(key)
        self.by_action = MLP(keys[0], (observation + action, *sizes, 2), "relu")
        self.by_step = MLP(keys[1], (2 * observation + action, *sizes, 2), "relu")

    def outputs(self, rows: Float[Array, "batch step"]) -> tuple[Float[Array, "batch 2"], Float[Array, "batch 2"]]:
        """Return both networks' outputs for rows s, a, s' side by side."""
        first = self.by_action.layers[0].weight.shape[0]
        bounded = lambda network, rows: 2 * jnp.tanh(network(rows))  # noqa: E731
        return bounded(self.by_action, rows[:, :first]), bounded(self.by_step, rows)

    def log_ratio(self, rows: Float[Array, "batch step"]) -> Float[Array, " batch"]:
        """Compute log p_real(s'|s, a) - log p_sim(s'|s, a)."""
        by_step = self.outputs(rows)[1]
        return by_step[:, 0] - by_step[:, 1]

    def loss(self, rows: Float[Array, "batch step"], real: Bool[Array, " batch"]) -> Float[Array, ""]:
        """Compute the cross-entropy of both verdicts, real and simulated rows each counting as one."""
        by_action, by_step = self.outputs(rows)
        total = jnp.zeros(())
        for outputs in (by_action, by_action + by_step):
            verdict = jax.nn.log_softmax(outputs)
            total -= weighted_mean(verdict[:, 0], real) + weighted_mean(verdict[:, 1], ~real)
        return total


class H2OState(SACState):
    classifiers: Classifiers
    classifier_optimiser: Any
    report: Float[Array, "3"]  # of the last update: the classifiers' loss, the mean ratio and the mean gap


class H2O(SAC):
    """SAC from real data and an imperfect simulator (Niu et al., 2022, arXiv 2206.13464).

    The environment is the simulator, and the data set holds real transitions, half of each batch as published; a batch
    without any is learned from as SAC does. A run
    evaluates in the simulator; `forage evaluate RUN --env REAL` does elsewhere.
    """

    example: ClassVar[str] = "forage train h2o Pendulum-v1 --memory mixed --memory.data real.npz"
    ranges: ClassVar[Ranges] = {
        "conservatism": Range(0),
        "classifier_sizes": Range(1),
        "classifier_noise": Range(0),
        "next_samples": Range(1),
    }

    conservatism: float = 0.01  # weight of the gap between simulated values and the data's; larger trusts the simulator
    # less; the authors'
    classifier_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256))  # layers of the two classifiers
    classifier_noise: float = 0.1  # deviation of the noise on what the classifiers see while they learn; larger keeps
    # them from fitting single transitions; the authors'
    next_samples: int = equinox.field(static=True, default=10)  # noisy s' over which a step's dynamics gap is a mean;
    # the authors'
    backup_entropy: bool = equinox.field(static=True, default=False)  # targets count the policy's entropy, as in SAC;
    # the authors' do not

    def check(self, spec: Spec) -> None:
        super().check(spec)
        space: Any = spec.observation_space
        if getattr(space, "shape", None) is None or len(space.shape) != 1:
            raise ForageError(
                f"H2O's classifiers see vectors of numbers, and the observations of {spec.name} are something else; "
                f"rlpd takes any."
            )

    def init(self, key: Key[Array, ""], spec: Spec) -> H2OState:
        state: Any = super().init(key, spec)
        shape: Any = spec.observation_space.shape
        sizes = shape[0], state.actor.actions.outputs, self.classifier_sizes
        classifiers = Classifiers(jax.random.fold_in(key, 1), *sizes)
        return H2OState.extend(state, classifiers=classifiers, **self.fresh(classifiers))

    def fresh(self, classifiers: Classifiers) -> dict[str, Any]:
        """Return the initial fields of the state for these classifiers."""
        return {"classifier_optimiser": self.descent().init(classifiers), "report": jnp.zeros(3)}

    def update(self, state: H2OState, inputs: UpdateInputs) -> tuple[H2OState, Metrics, Float[Array, " batch"]]:
        state, metrics, error = super().update(state, inputs)
        names = ("classifier_loss", "dynamics_ratio", "dynamics_gap")
        return state, metrics | dict(zip(names, state.report, strict=True)), error

    def evaluate(self, state: H2OState, inputs: UpdateInputs) -> tuple[H2OState, CriticReport]:
        """Take one step of the classifiers, then one of the critics, weighted by the classifiers' outputs."""
        assert inputs.keys.sampled is not None
        now, real = inputs.now, inputs.now.source == DATASET
        noise_key, next_key = jax.random.split(inputs.keys.sampled)
        rows = jnp.concatenate([now.observation, inputs.action, now.next_observation], axis=1).astype(jnp.float32)

        # Classifiers
        noisy = rows + self.classifier_noise * jax.random.normal(noise_key, rows.shape)
        told, gradient = jax.value_and_grad(Classifiers.loss)(state.classifiers, noisy, real)
        descent = self.descent()
        classifiers, classifier_optimiser = descent.step(gradient, state.classifier_optimiser, state.classifiers)
        state = state._replace(classifiers=classifiers, classifier_optimiser=classifier_optimiser)

        # Critics
        ratio, gap = self.trust(classifiers, rows, now.next_observation, real, next_key)
        target = self.target(state, inputs)
        gradient, report = jax.grad(self.hybrid_loss, has_aux=True)(state.critics, inputs, target, ratio, gap)
        said = jnp.stack([told, weighted_mean(ratio, ~real), weighted_mean(gap, ~real)])
        return self.step_critics(state, gradient)._replace(report=said), report

    def trust(
        self,
        classifiers: Classifiers,
        rows: Float[Array, "batch step"],
        following: Float[Array, "batch numbers"],
        real: Bool[Array, " batch"],
        key: Key[Array, ""],
    ) -> tuple[Float[Array, " batch"], Float[Array, " batch"]]:
        """Compute the bounded p_real / p_sim of each step, and its dynamics gap u."""
        ratio = jnp.clip(jnp.exp(classifiers.log_ratio(rows)), LEAST_RATIO, 1.0)
        ratio = jnp.where(real.any(), ratio, 1.0)  # without real steps there is nothing to compare with
        mean = jax.vmap(weighted_mean, (1, None))(following, real)
        deviation = jnp.sqrt(jax.vmap(weighted_mean, (1, None))((following - mean) ** 2, real))
        moved = jax.random.normal(key, (self.next_samples, *following.shape)) * deviation
        others = rows[:, : rows.shape[1] - following.shape[1]]
        ask = lambda moved: -classifiers.log_ratio(jnp.concatenate([others, following + moved], axis=1))  # noqa: E731
        return ratio, jnp.clip(jax.vmap(ask)(moved).mean(0), LEAST_GAP, MOST_GAP)

    def hybrid_loss(
        self,
        critics: ActionValue,
        inputs: UpdateInputs,
        target: Float[Array, " batch"],
        ratio: Float[Array, " batch"],
        gap: Float[Array, " batch"],
    ) -> tuple[Float[Array, ""], CriticReport]:
        """Compute the critics' loss; each kind of transition counts as one, however many there are of it."""
        now, real = inputs.now, inputs.now.source == DATASET
        share = jnp.where(real, 1.0 / jnp.maximum(real.mean(), 1e-8), ratio / jnp.maximum((~real).mean(), 1e-8))
        loss, report = self.critic_loss(critics, inputs._replace(weight=inputs.weight * share), target)
        values = each_value(critics, now.observation, inputs.action, key=inputs.keys.critics)
        gap = jnp.where(real & ~real.all(), 0.0, gap)
        part = gap / gap.sum()
        simulated = jax.nn.logsumexp(values, axis=1, b=part)
        recorded = jnp.where(real, values, 0.0).sum(1) / jnp.maximum(real.sum(), 1)
        apart = jnp.where(real.any() & ~real.all(), simulated - recorded, 0.0)
        return loss + self.conservatism * apart.sum() / 2, report
