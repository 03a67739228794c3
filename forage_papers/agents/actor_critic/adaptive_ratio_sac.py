"""Soft actor-critic that raises its replay ratio once the activity of its critics' units has settled.

Ma, Li, Zhang, Liu, Wang, Chen, Shen, Wang, Tao (2024), "Revisiting Plasticity in Visual Reinforcement Learning: Data,
Modules and Training Stages", arXiv 2310.07418: Adaptive RR, as in the authors' code (`drqv2_adapt_rr.py`,
`train_adapt_rr.py`), which has DrQ-v2 and pixels. Early on, many updates on few data cost critics their plasticity;
later they help. So learning begins with few updates a step. With h the units of the critics' hidden layers,

    activity  F = share of h > 0, over a batch
    check     when |mean F at this check - mean F at the one before| <= gap, many updates from now on

The first check compares with F of the first batch.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from forage.agents.actor_critic.sac import SAC, SACState
from forage.core.ports import Metrics
from forage.core.ranges import Range, Ranges, check_order
from forage.core.types import Batch, Clock, Spec
from forage.nn.critics import ActionValue


class Activity(NamedTuple):
    """Running measurements of the critics' activity."""

    total: Float[Array, ""]  # of the batches before the next check
    last: Float[Array, ""]  # mean at the check before
    settled: Bool[Array, ""]  # many updates are made


class AdaptiveRatioState(SACState):
    activity: Activity


class AdaptiveRatioSAC(SAC):
    """SAC that makes few updates a step until its critics' activity stands still (Ma et al., 2024, arXiv 2310.07418).

    The authors go from one update in two steps to two in each, and so do the defaults. They check once in 50 episodes
    of 500 steps, by the mean over the episode before: 12,500 updates of which the last 250 count. Here SAC has the
    place of DrQ-v2; their augmentation of pictures is not part of it.
    """

    example: ClassVar[str] = "forage train adaptive-ratio-sac Pendulum-v1 --check-interval 500 --window 50"
    ranges: ClassVar[Ranges] = {
        "low_updates": Range(1),
        "check_interval": Range(1),
        "window": Range(1),
        "gap": Range(0),
    }
    reset_keeps: ClassVar[tuple[str, ...]] = (*SAC.reset_keeps, "activity")

    rollout_length: int = equinox.field(static=True, default=2)
    updates_per_rollout: int = equinox.field(static=True, default=4)  # updates after each rollout once activity has
    # settled
    low_updates: int = equinox.field(static=True, default=1)  # updates after each rollout until then
    check_interval: int = equinox.field(static=True, default=12_500)  # updates between two checks; fewer notice sooner
    # that activity has settled, or has seemed to
    window: int = equinox.field(static=True, default=250)  # last updates before a check whose activity is averaged
    gap: float = 0.001  # change of mean activity between two checks up to which it has settled; larger settles sooner

    def __check_init__(self):
        check_order(self, "low_updates", "updates_per_rollout", equal=True)
        check_order(self, "window", "check_interval", equal=True)

    def init(self, key: Key[Array, ""], spec: Spec) -> AdaptiveRatioState:
        activity = Activity(jnp.float32(0), jnp.float32(0), jnp.bool_(False))
        return AdaptiveRatioState.extend(super().init(key, spec), activity=activity)

    def num_updates(self, state: AdaptiveRatioState) -> Int[Array, ""]:
        return jnp.where(state.activity.settled, self.updates_per_rollout, self.low_updates)

    def learn(
        self, state: AdaptiveRatioState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[AdaptiveRatioState, Metrics, Float[Array, " batch"]]:
        now, action = self.transitions(state, batch)

        def active(critic: ActionValue) -> Float[Array, ""]:
            return jnp.concatenate(
                [(units.output > 0).reshape(-1) for units in critic.units(now.observation, action)]
            ).mean()

        share = jax.vmap(active)(state.critics).mean()
        activity = self.add_batch(state.activity, share, state.updates)
        state, metrics, error = super().learn(state, batch, clock, key)
        metrics |= {"activity": share, "settled": activity.settled.astype(jnp.float32)}
        return state._replace(activity=activity), metrics, error

    def add_batch(self, activity: Activity, share: Float[Array, ""], updates: Int[Array, ""]) -> Activity:
        """Return the measurements after one more batch; `updates`: the number of updates before it."""
        place = updates % self.check_interval
        last = jnp.where(updates == 0, share, activity.last)
        total = activity.total + jnp.where(place >= self.check_interval - self.window, share, 0.0)
        mean, checked = total / self.window, place == self.check_interval - 1
        settled = activity.settled | (checked & (jnp.abs(mean - last) <= self.gap))
        return Activity(jnp.where(checked, 0.0, total), jnp.where(checked, mean, last), settled)
