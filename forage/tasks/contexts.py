"""Contexts: every episode in an environment of its own, for training and for test."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.core.fields import check_value, replace, value_of
from forage.core.ports import Environment, RolloutReport, Tasks
from forage.core.ports.needs import Choices
from forage.core.types import Experience, ForageError
from forage.tasks.distributions import Distribution, make_distribution

SPLITS = ("same", "interpolation", "extrapolation")


def parse_contexts(given: Any) -> tuple[Distribution, ...]:
    """Contexts as parts; one alone needs no tuple."""
    return tuple(make_distribution(one) for one in ((given,) if isinstance(given, str | Distribution) else given))


class Draws(Tasks):
    """Chooses each field of `chosen`, from a region of the probability: `all`, the `middle` half or the `ends`."""

    chosen: tuple[Distribution, ...]
    region: str = equinox.field(static=True, default="all")

    def check_names(self) -> None:
        """Raise `ForageError` for a field that is named twice."""
        names = [one.field for one in self.chosen]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise ForageError(f"The field {name} is chosen twice; name each field once.")

    @property
    def adapts(self) -> bool:
        return any(one.scheduled for one in self.chosen)

    def check(self, environment: Environment) -> None:
        """Raise `ForageError` for a field that the environment does not have or that cannot be chosen so."""
        for one in map(dataclasses.replace, self.chosen):  # made anew, so that what a schedule brought is looked at
            whole = is_whole(value_of(environment, one.field))
            one.check(whole)
            for value in one.ends():
                check_value(environment, one.field, value)
            if self.region != "all" and (whole or not one.continuous):
                raise ForageError(
                    f"A split cuts a range of numbers in parts, and {one.field} has none; give test contexts instead, "
                    f"as in --tasks.test {one.field}=..."
                )

    def init(self, key: Key[Array, ""], environment: Environment) -> Int[Array, ""]:
        self.check(environment)
        return jnp.zeros((), jnp.int32)

    def next(self, state: Int[Array, ""], environment: Environment, key: Key[Array, ""]) -> PyTree[Array | None]:
        task: Any = jax.tree.map(lambda _: None, environment)
        for one, own_key in zip(self.chosen, jax.random.split(key, len(self.chosen)), strict=True):
            value = value_of(environment, one.field)
            share = conditional_share(self.region, jax.random.uniform(own_key, jnp.shape(value)))
            drawn = one.quantile(share, state, is_whole(value)).astype(jnp.result_type(value))
            task = replace(task, environment, one.field, drawn)
        return task

    def report(self, state: Int[Array, ""], rollout: Experience, review: RolloutReport) -> Int[Array, ""]:
        """Count the steps that a seed has taken."""
        time, env = rollout.reward.shape[:2]
        return state + time * env


class Contexts(Tasks):
    """Draws the named fields of the environment again for each episode, independently, by the rules in `train`.

    `train` and `test` name fields and how they are chosen. `test` is for evaluation; what it does not name is as in
    training. In words, `field=VALUES`, where values are `0.5` (fixed), `0.25:1.0` or `uniform:0.25:1.0`,
    `log-uniform:0.25:4`, `normal:9.8:1` (cut at three standard deviations), `choice:0.25:0.5:1` or
    `linear:0.25:1.0:100k` (over the first 100k steps of each seed; evaluated at its end). A number of a range may move
    over the run: `length=0.5..0.25:0.5..1.0` begins at 0.5 and ends as `0.25:1.0`, with which it is evaluated. In
    Python also parts of `forage.tasks.distributions`, whose numbers may be schedules.

    A `split` makes test contexts of the training ones instead: of each field's probability the middle half is parted
    from the two outer quarters. `interpolation` trains on the outer quarters of every field and tests in the middle of
    every field; `extrapolation` trains in the middle and tests on the outer quarters.

    Fields are of any wrapper, too; where a wrapper and what it wraps share a name, the innermost is meant. A context
    is hidden unless the wrapper `context-visible` shows it.

        Contexts(("length=0.25:1.0", "gravity=normal:9.8:1"), test=("length=1.0:2.0",))

    With uniform ranges and no test contexts this is domain randomisation.

    Source: Benjamins, Eimer, Schubert, Mohan, Döhler, Biedenkapp, Rosenhahn, Hutter, Lindauer (2023), "Contextualize
    Me - The Case for Context in Reinforcement Learning", arXiv 2202.04500; the splits after Kirk, Zhang, Grefenstette,
    Rocktäschel (2023), "A Survey of Zero-shot Generalisation in Deep Reinforcement Learning", arXiv 2111.09794; domain
    randomisation, Tobin, Fong, Ray, Schneider, Zaremba, Abbeel (2017), arXiv 1703.06907, of dynamics, Peng,
    Andrychowicz, Zaremba, Abbeel (2018), arXiv 1710.06537.
    """

    example: ClassVar[str] = (
        "forage train ppo CartPole-v1 --tasks contexts --tasks.train length=0.25:1.0 --tasks.test length=1.0:2.0"
    )
    choices: ClassVar[Choices] = {"split": SPLITS}

    train: tuple[str | Distribution, ...] = equinox.field(converter=parse_contexts)  # what to draw each field of the
    # environment from: FIELD=VALUES,FIELD=VALUES,...
    test: tuple[str | Distribution, ...] = equinox.field(
        converter=parse_contexts, default=()
    )  # contexts of evaluation,
    # written as those of `train`
    split: str = equinox.field(static=True, default="same")  # how test contexts differ: same, interpolation or
    # extrapolation

    def __check_init__(self):
        if not self.train:
            raise ForageError("Contexts need at least one field to choose, as in length=0.25:1.0.")
        if self.split != "same" and self.test:
            raise ForageError(f"Contexts have test contexts or the split {self.split}, not both.")
        for draws in (self.training, Draws(parse_contexts(self.test))):
            draws.check_names()

    @property
    def training(self) -> Draws:
        """Return the distributions that training draws from."""
        region = {"interpolation": "ends", "extrapolation": "middle"}.get(self.split, "all")
        return Draws(parse_contexts(self.train), region)

    def evaluation(self) -> Draws:
        by_field = {one.field: one.last() for one in (*parse_contexts(self.train), *parse_contexts(self.test))}
        region = {"interpolation": "middle", "extrapolation": "ends"}.get(self.split, "all")
        return Draws(tuple(by_field.values()), region)

    @property
    def adapts(self) -> bool:
        return self.training.adapts

    def check(self, environment: Environment) -> None:
        self.training.check(environment)
        self.evaluation().check(environment)

    def init(self, key: Key[Array, ""], environment: Environment) -> Int[Array, ""]:
        return self.training.init(key, environment)

    def next(self, state: Any, environment: Environment, key: Key[Array, ""]) -> PyTree[Array | None]:
        return self.training.next(state, environment, key)

    def report(self, state: Any, rollout: Experience, review: RolloutReport) -> Any:
        return self.training.report(state, rollout, review)


def conditional_share(region: str, u: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return a share of the probability of the whole, for one of the probability of a region."""
    if region == "middle":
        return 0.25 + u / 2
    return jnp.where(u < 0.5, u / 2, u / 2 + 0.5) if region == "ends" else u


def is_whole(value: Any) -> bool:
    return not jnp.issubdtype(jnp.result_type(value), jnp.floating)
