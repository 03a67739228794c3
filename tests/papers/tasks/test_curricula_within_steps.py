"""Rules for problems of several rollouts to an update, of several families and by the first policy, worked by hand."""

import jax.numpy as jnp
import numpy as np
import pytest
from test_curricula_papers import KEY, exam, tell

from forage_papers.tasks.dars import DARS
from forage_papers.tasks.first_policy import FirstPolicy
from forage_papers.tasks.hints import Hints
from forage_papers.tasks.rising import Rising


@pytest.mark.thorough
def test_answers_within_an_update_owe_nothing_to_the_next():
    part, world = DARS(normalised=False, rounds=2, repeats=4), exam(0, 0, 0, slot=12)
    own = part.update_state(part.first(world), tell(0.125, 0.5, None), world)
    assert own.tolist() == [6, 0, 0]  # 11 more answers are six groups of 2, as 4 of these were the first 8
    assert part.end_step(own).tolist() == [0, 0, 0] and Hints(rounds=4).end_step(jnp.array([2, 0])).tolist() == [0, 0]


def test_the_first_policy_says_which_problems_are_kept():
    for kept, out in [("solved", [0, 1, 0, 0]), ("unsolved", [1, 0, 1, 0]), ("differing", [1, 1, 0, 0])]:
        part, world = FirstPolicy(measured=2, kept=kept), exam(0, 0, 0, 0)
        own = part.update_state(part.first(world), tell(1.0, 0.0, None, None), world)
        assert not part.leaves_out(own, KEY, world).any()
        before, own = own, part.update_state(own, tell(1.0, 0.0, 0.5, None), world)
        assert part.restarts(before, own) and part.leaves_out(own, KEY, world).tolist() == [bool(one) for one in out]
        own = part.update_state(own, tell(0.0, 1.0, 1.0, 1.0), world)  # later policies count no more
        assert part.leaves_out(own, KEY, world).tolist() == [bool(one) for one in out]


@pytest.mark.thorough
def test_each_family_has_a_window_of_its_own_and_comes_equally_often():
    part = Rising(threshold=0.75, answers=8, width=2)
    world = exam(*[0, 0.1] * 8, *[0.5] * 16, kinds=[0] * 16 + [1] * 16)
    own = part.first(world)
    assert own.level.tolist() == [0, 1] * 8 + [0] * 16 and own.high.tolist() == [0, 0]
    own = part.update_state(own, tell(1.0, *[None] * 15, 1.0, *[None] * 15), world)
    assert own.high.tolist() == [1, 0]  # the second family has no other level
    kinds = np.asarray(own.kind)[np.argsort(part.rank(own, KEY, world))]
    assert abs(int((kinds[:16] == 1).sum()) - 8) <= 1  # two levels of one family share what the other's one has
