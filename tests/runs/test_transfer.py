"""The spaces of a run and of the run whose weights it starts with."""

import types

import numpy as np
import pytest
from gymnasium import spaces

from forage.core.columns import Column, Columns
from forage.core.spaces import MixedSpace, Tokens
from forage.core.specs import spec_to_config
from forage.core.types import ForageError, Spec
from forage.runs.transfer import blame_spaces, check_meanings, check_spaces, notes


def spec(observation=None, action=None, name="There", **more):
    seen = spaces.Box(-1, 1, (3,), np.float32) if observation is None else observation
    return Spec(name, seen, spaces.Discrete(2) if action is None else action, **more)


def parent(spec, wrap=()):
    config = {"spec": spec_to_config(spec), "environment": {"id": spec.name, "wrap": list(wrap)}}
    return types.SimpleNamespace(directory="runs/a", config=config)


def box(low, high, shape=(1,), dtype=np.float32):
    return spaces.Box(low, high, shape, dtype)


def mixed_space(*counts, numbers):
    nested = spaces.Tuple([*map(spaces.Discrete, counts), box(-1, 1, (numbers,))])
    return MixedSpace(spaces.MultiDiscrete(counts), box(-1, 1, (numbers,)), nested)


END = "; its weights fit an environment with the same spaces"
OTHER = [
    (spec(), spec(box(-1, 1, (4,))), "which shows Box(3,), and Here shows Box(4,)" + END),
    (spec(), spec(action=spaces.Discrete(3)), "which takes Discrete(2), and Here takes Discrete(3)" + END),
    (
        spec(),
        spec(box(-1, 1, (4,)), box(-1, 1)),
        "which shows Box(3,) and takes Discrete(2), and Here shows Box(4,) and takes Box(1,)" + END,
    ),
    (
        spec(spaces.Dict(a=box(0, 1))),
        spec(spaces.Dict(b=box(0, 1))),
        "which shows Dict(a: Box(1,)), and Here shows Dict(b: Box(1,))" + END,
    ),
    (spec(), spec(spaces.Discrete(3)), "which shows Box(3,), and Here shows Discrete(3)" + END),
    (
        spec(action=mixed_space(2, 2, numbers=1)),
        spec(action=mixed_space(2, numbers=2)),
        "which takes Tuple(Discrete(2), Discrete(2), Box(1,)), and Here takes Tuple(Discrete(2), Box(2,))" + END,
    ),
    (
        spec(reward_names=("gold", "time")),
        spec(),
        "which pays gold, time, and Here pays one reward" + END,
    ),
]


@pytest.mark.parametrize(("there", "here", "said"), OTHER, ids=[said[:40] for *_, said in OTHER])
def test_other_shapes_are_a_sentence(there, here, said):
    with pytest.raises(ForageError) as caught:
        check_spaces(parent(there), Spec(**{**vars_of(here), "name": "Here"}))
    assert str(caught.value) == f"runs/a was trained in There, {said}."


def vars_of(spec):
    return {name: getattr(spec, name) for name in Spec.__dataclass_fields__}


def test_spaces_are_blamed_before_settings_taken_over():
    def fail(here, there):
        with blame_spaces(there, [here]):
            raise ForageError("hidden_sizes has no effect.")

    with pytest.raises(ForageError, match="which takes Discrete"):
        fail(spec(action=box(-1, 1)), parent(spec()))
    for here, there in ((spec(), parent(spec())), (spec(action=box(-1, 1)), None)):
        with pytest.raises(ForageError, match="no effect"):
            fail(here, there)


def test_lost_wrappers_are_named():
    with pytest.raises(ForageError, match=r"same spaces, and it had --wrap frame-stack:4 --wrap time-limit:9\.$"):
        check_spaces(parent(spec(), ["frame-stack:4", "time-limit:9"]), spec(box(-1, 1, (4,))))


@pytest.mark.parametrize(
    ("there", "here"),
    [
        (spec(), spec(box(-5, 5, (3,)))),
        (spec(action=box(-1, 1)), spec(action=box(-3, 3))),
        (spec(box(0, 9, dtype=np.int32)), spec(box(0, 999, dtype=np.int32))),
        (spec(Tokens(8, 30)), spec(Tokens(16, 30))),
        (spec(num_agents=2), spec(num_agents=3)),
    ],
)
def test_weights_of_the_same_shapes_may_fit(there, here):
    check_spaces(parent(there), here)
    check_meanings(parent(there), here)


def test_changed_meanings_are_notes():
    def differences(there, here, lost=(), wrap=()):
        return notes(parent(there, lost), here, list(wrap))

    assert differences(spec(), spec()) == differences(spec(), spec(box(-5, 5, (3,)))) == []
    assert differences(spec(action=box(-1, 1)), spec(action=box(-3, 3))) == [
        "actions were from -1 to 1, and are from -3 to 3 here"
    ]
    large, larger = (spec(box(0, most, dtype=np.int32)) for most in (200, 999))
    assert differences(large, larger) == [
        "whole numbers of the observation have other bounds, by which networks see them divided"
    ]
    assert differences(large, large) == []
    assert differences(spec(), spec(), ["frame-stack:4"]) == [
        "that run's wrappers were frame-stack:4, and this one's are none"
    ]
    assert differences(spec(), spec(), ["frame-stack:4"], wrap=["frame-stack:4"]) == []
    assert differences(spec(reward_names=("a", "b")), spec(reward_names=("b", "a"))) == [
        "rewards were a, b, and are b, a here"
    ]


def test_a_table_keeps_its_columns():
    def table(*names, mean=0.0, words=("x", "y")):
        seen = tuple(Column(name, "category", words) if name == "kind" else Column(name, mean=mean) for name in names)
        return spec(columns=Columns(seen, (Column("order", "category", ("a", "b")),)))

    check_meanings(parent(table("stock", "kind")), table("stock", "kind", mean=2.0))
    assert notes(parent(table("stock")), table("stock", mean=2.0), []) == [
        "numbers of the table are standardised by other means and deviations"
    ]
    with pytest.raises(
        ForageError, match=r"observes the columns stock, price, and the table of this run has price, st"
    ):
        check_meanings(parent(table("stock", "price")), table("price", "stock"))
    with pytest.raises(ForageError, match=r"has kind, with other words or kinds in kind; its weights fit a table"):
        check_meanings(parent(table("kind")), table("kind", words=("y", "x")))
