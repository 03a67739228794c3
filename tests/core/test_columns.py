"""Named columns: their codes worked out by hand, and the cells that they refuse."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from forage.core.columns import Column, Columns, date_numbers, read_date
from forage.core.columns.entries import LogView, log_spaces
from forage.core.errors import ForageError
from forage.core.types import Spec

STOCK = Column("stock", mean=2.0, deviation=4.0, typical=6.0)
SHOP = Columns(
    (STOCK, Column("day", "category", ("Mon", "Tue")), Column("promo", "boolean", ("no", "yes"))),
    (Column("order", "category", ("none", "small", "large")), Column("fast", "boolean", ("no", "yes"))),
)


def test_an_observation_is_standardised_one_hot_and_a_flag():
    assert SHOP.entries() == ["stock", "day=Mon", "day=Tue", "promo"]
    assert SHOP.encode_observation({"promo": "yes", "day": "Tue", "stock": 10}).tolist() == [2, 0, 1, 1]
    batch = {"stock": [10, None, -2.0], "day": np.array(["Mon", "Tue", "Mon"]), "promo": [True, 0, "No"]}
    assert SHOP.encode_observation(batch).tolist() == [[2, 1, 0, 1], [1, 0, 1, 0], [-1, 1, 0, 0]]
    assert SHOP.observation_space.low.tolist() == [-np.inf, 0, 0, 0]


def test_an_action_is_several_choices_or_one_joint_one():
    assert SHOP.action_space == spaces.MultiDiscrete([3, 2])
    assert SHOP.decode_action([2, 1]) == {"order": "large", "fast": "yes"}
    assert {k: v.tolist() for k, v in SHOP.decode_action([[0, 1], [1, 0]]).items()} == {
        "order": ["none", "small"],
        "fast": ["yes", "no"],
    }
    joint = dataclasses.replace(SHOP, joint=True)
    assert joint.action_space == spaces.Discrete(6)
    assert [int(joint.encode_action(joint.decode_action(i))) for i in range(6)] == list(range(6))
    assert joint.decode_action(5) == {"order": "large", "fast": "yes"}  # the last column changes fastest
    dose = Columns((STOCK,), (Column("dose", low=0.5, high=2.0), Column("heat", low=3.0, high=3.0)))
    assert (dose.action_space.low.tolist(), dose.action_space.high.tolist()) == ([0.5, 3], [2, 4])
    assert dose.decode_action([0.5, 3.5]) == {"dose": 0.5, "heat": 3.5}
    assert Columns.from_json(joint.to_json()) == joint and Columns.from_json(None) is None


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("column promo is missing; give stock, day, promo", {"promo": ...}),
        (r"no column 'stok'. Did you mean 'stock'\?", {"stok": 1}),
        ("column day takes Mon, Tue, not 'Wed'", {"day": "Wed"}),
        ("column day has no value; it takes Mon, Tue", {"day": ""}),
        ("column stock takes a number, not 'many'", {"stock": "many"}),
        ("column stock takes a finite number, not inf", {"stock": np.inf}),
        ("column promo takes no or yes, not 'maybe'", {"promo": "maybe"}),
        (r"one value each, or lists of one length; they have stock \(2,\), day \(\)", {"stock": [1, 2]}),
    ],
)
def test_bad_cells_are_refused(words, change):
    values = {"stock": 1, "day": "Mon", "promo": "no"} | change
    with pytest.raises(ForageError, match=words):
        SHOP.encode_observation({name: value for name, value in values.items() if value is not ...})


def test_records_that_make_no_sense_are_refused():
    for words, columns in (
        ("Column stock is named twice", ((STOCK,), (STOCK,))),
        ("one or more that is chosen", ((STOCK,), ())),
        ("choices \\(a\\) beside numbers \\(b\\)", ((STOCK,), (Column("a", "boolean"), Column("b")))),
        ("a category without names", ((STOCK,), (Column("a", "category"),))),
    ):
        with pytest.raises(ForageError, match=words):
            Columns(*columns)
    with pytest.raises(ForageError, match="at most 1,024 combinations"):
        many = tuple(Column(name, "category", tuple(map(str, range(11)))) for name in "abc")
        Columns((STOCK,), many, joint=True)


def test_dates_count_months_of_31_days():
    assert read_date("1970-02-01") == 31 and read_date("01.02.1970 12:00") == 31.5
    assert read_date("2024-02-29") < read_date("2024-02-30") < read_date("2024-03-01")
    assert read_date("13/2024") is read_date("2024-13-01") is None
    times = np.array(["1970-02-01T12:00", "NaT"], "datetime64[s]")
    np.testing.assert_array_equal(date_numbers(times), [31.5, np.nan])


def spec_of(observation, action, joint=False):
    columns = Columns(observation, action, joint, "paid")
    return Spec("log", columns.observation_space, columns.action_space, columns=columns)


def test_an_environment_is_seen_as_its_log_by_hand():
    """3 is 1.5 deviations above the mean of 0, 5 is the third of the names 1, 2, 5, and 0 is no."""
    seen = Column("x", mean=0.0, deviation=2.0), Column("kind", "category", ("1", "2", "5")), Column("on", "boolean")
    spec = spec_of(seen, (Column("push", "category", ("2", "0")),))
    view = LogView(log_spaces(spec), Box(-9, 9, (3,)), Discrete(3), "Shop")
    for xp in (np, jnp):
        found = view.encode(np.array([3, 5, 0], np.float32), xp)
        assert found.dtype == np.float32 and found.tolist() == [1.5, 0, 0, 1, 0]
        assert [int(view.decode(xp.asarray(code), xp)) for code in (0, 1)] == [2, 0]
    pair = Column("push", "category", ("left", "right")), Column("speed", "category", ("0", "2"))
    both = LogView(log_spaces(spec_of(seen[:1], pair, joint=True)), Box(-9, 9, (1,)), MultiDiscrete([2, 3]), "Shop")
    each = LogView(log_spaces(spec_of(seen[:1], pair)), Box(-9, 9, (1,)), MultiDiscrete([2, 3]), "Shop")
    for xp in (np, jnp):
        assert both.decode(xp.asarray(3), xp).tolist() == [1, 2] == each.decode(xp.asarray([1, 1]), xp).tolist()
    force = LogView(
        log_spaces(spec_of(seen[:1], (Column("f", low=-3, high=1),))), Discrete(4), Box(-2, 2, (1,)), "Shop"
    )
    assert force.action_space.low.tolist() == [-3] and force.encode(np.int64(1), np).tolist() == [0.5]
    assert [force.decode(np.array([x], np.float32), np).tolist() for x in (-2.5, 0.5)] == [[-2], [0.5]]


def test_an_environment_that_is_not_of_a_log_is_refused():
    number, day = Column("x"), Column("day", "category", ("Mon", "Tue"))
    choice, force = Column("push", "category", ("a", "b")), Column("f", low=-1, high=1)
    for columns, action, space, does, said in (
        (
            (number, Column("y")),
            choice,
            Box(0, 1, (3,)),
            Discrete(2),
            "are 2 columns .x, y., and those of Shop are Box",
        ),
        ((number, day), choice, Box(0, 1, (2,)), Discrete(2), "column day has Mon, Tue, and Shop shows numbers"),
        ((number,), choice, Box(0, 1, (1,)), Discrete(3), "actions are Discrete.2., and those of Shop are Discrete.3."),
        ((number,), choice, Box(0, 1, (1,)), Box(0, 1, (1,)), "actions are Discrete.2., and those of Shop are Box"),
        ((number,), force, Box(0, 1, (1,)), Box(0, 1, (2,)), "actions are Box.* and those of Shop are Box"),
    ):
        with pytest.raises(ForageError, match=said):
            LogView(log_spaces(spec_of(columns, (action,))), space, does, "Shop")
