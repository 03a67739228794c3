"""The estimated value of a policy, as text, as plain data, and with warnings in words."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from forage.data.logged import Transitions
from forage.evaluation.off_policy.behaviour import RARE
from forage.evaluation.off_policy.estimate import FEW, Estimate

LEAST_SHARE = 0.01  # effective transitions below this share of the log are too few
FEW_ROWS = 50  # and so are fewer than this
OFTEN = 0.2  # share of rarely logged actions that is worth a warning
FAR_BEYOND = 0.5  # share of the discounting beyond the logged episodes that is worth one


@dataclasses.dataclass(frozen=True)
class PolicyValue:
    """The estimated value of a policy: E[sum over t of discount^t r_t] from the log's first observations.

    - `value`, `low`, `high`: by fitted Q evaluation, with its interval.
    - `others`: estimates by `dr` and `wpdis`, without an interval below `FEW` effective episodes; empty for actions of
      numbers.
    - `logged`: mean discounted return of the log itself, cut where its episodes end.
    - `effective_transitions`, `effective_episodes`: (sum w)^2 / sum w^2 of the weights with which transitions, and
      whole episodes, enter the value.
    - `weighed_episodes`: the same for the products of ratios of `dr` and `wpdis`.
    - `rare`: share of the logged observations in which the log hardly has the policy's action.
    - `cut`: share of the discounting beyond the ends of truncated episodes.
    - `behaviour`: the fits of the logged behaviour, the better one first; empty if the log has probabilities.
    - `moved`: the change of each of `others` with the second fit.
    - `held_out_error`, `fitted_error`: mean squared Bellman errors of held-out and of fitted transitions.
    - `shift`: the change of the value that held-out transitions ask for.
    """

    discount: float
    confidence: float
    value: float
    low: float
    high: float
    others: dict[str, Estimate]
    logged: Estimate
    episodes: int
    transitions: int
    left_out: int  # transitions of a log that is larger than needed
    effective_transitions: float
    effective_episodes: float
    weighed_episodes: float | None
    rare: float
    cut: float
    behaviour: tuple[dict[str, Any], ...]
    moved: dict[str, float]
    held_out_error: float
    fitted_error: float
    shift: float
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        """Return the estimates as lines, and the warnings in words."""
        size = f"{self.episodes:,} episodes, {self.transitions:,} transitions"
        size += f" ({self.left_out:,} more left out)" if self.left_out else ""
        rows = {"fqe": Estimate(self.value, self.low, self.high, self.episodes), **self.others, "logged": self.logged}
        few = "too few effective episodes for one"
        meaning = {name: few for name, found in self.others.items() if found.low is None}
        meaning |= {"fqe": "the value", "logged": "mean discounted return of the log itself"}
        lines = [f"Value at discount {self.discount:g} with {100 * self.confidence:.0f} % intervals, from {size}"]
        for name, found in rows.items():
            lines.append(f"{name:<8}{found}".ljust(44) + meaning.get(name, ""))
        lines = [line.rstrip() for line in lines]
        lines.append(
            f"Behind the value stand {self.effective_transitions:,.0f} effective transitions and "
            f"{self.effective_episodes:,.0f} effective episodes; in {share(self.rare)} of the observations the log "
            f"hardly has the policy's action."
        )
        lines.append(
            f"Held-out episodes: Bellman error {self.held_out_error:.4g}, where fitted {self.fitted_error:.4g}; they "
            f"shift the value by {self.shift:+.3g}."
        )
        if self.behaviour:
            lines.append(self.behaviour_words)
        return "\n".join([*lines, *(f"Warning: {text}" for text in self.warnings)])

    @property
    def behaviour_words(self) -> str:
        """Describe the fitted behaviour, its calibration and the effect of another fit."""
        best, other = self.behaviour
        text = (
            f"The log has no probabilities of its actions. Fitted by {best['name']}: log-loss {best['log_loss']:.3g} "
            f"on held-out episodes ({best['plain_loss']:.3g} without observations), reliability error "
            f"{best['reliability']:.2g}; by {other['name']} {other['log_loss']:.3g} and {other['reliability']:.2g}."
        )
        moved = " and ".join(f"{name} by {change:+.3g}" for name, change in self.moved.items())
        return f"{text} The second fit moves {moved}." if moved else text

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        plain = dataclasses.asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}


def share(part: float) -> str:
    """Return a share as a percentage."""
    return f"{100 * part:.2g} %" if part < 0.995 else "100 %"


def find_warnings(made: PolicyValue, data: Transitions, choices: bool) -> list[str]:
    """Say in words why the value may be wrong. `choices`: actions are choices and not numbers."""
    found = []
    rows, episodes = made.effective_transitions, made.effective_episodes
    if rows < max(FEW_ROWS, LEAST_SHARE * made.transitions) or episodes < FEW:
        found.append(
            f"the log does not cover what this policy does. Its value rests on {rows:,.0f} effective transitions of "
            f"{made.transitions:,}, in {episodes:,.0f} effective episodes; trust neither value nor interval before "
            f"there are data of such actions."
        )
    if made.rare > OFTEN:
        rarely = f"chosen with a probability below {share(RARE)}" if choices else "no action near it"
        found.append(
            f"in {share(made.rare)} of the logged observations the policy does what the log hardly has ({rarely})."
        )
    ends = np.array([min(data.reward.min(), 0.0), max(data.reward.max(), 0.0)]) / (1 - made.discount)
    if not ends[0] <= made.value <= ends[1]:
        found.append(
            f"the value is beyond all that the logged rewards allow ({ends[0]:.4g} to {ends[1]:.4g}): the fit "
            f"extrapolates."
        )
    if made.cut > FAR_BEYOND:
        found.append(
            f"{share(made.cut)} of the discounting lies beyond the ends of the logged episodes; the value there is "
            f"inferred from the observations that they reach."
        )
    robust = made.others.get("dr")
    if robust is not None and robust.low is not None and robust.high is not None:
        apart = robust.low > made.high or robust.high < made.low
        if apart and made.weighed_episodes is not None and made.weighed_episodes >= FEW:
            found.append(f"doubly robust says {robust}, which the interval of the value does not touch.")
    if made.weighed_episodes is not None and made.weighed_episodes < FEW:
        found.append(
            f"dr and wpdis multiply ratios over whole episodes, which leaves {made.weighed_episodes:.1f} effective "
            f"episodes: too few to trust these two, so they have no interval (that takes {FEW})."
        )
    return found
