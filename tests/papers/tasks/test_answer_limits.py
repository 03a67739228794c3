"""Curricula of the longest answer, worked by hand."""

from types import SimpleNamespace
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_numbered import setup_of

from forage.core.types import ForageError
from forage_papers.tasks.answer_limits import SIRI, FastCuRL

KEY = jax.random.key(0)
SPACE = gymnasium.spaces.Dict({})


def text(lengths: list[int], response: Any = 24) -> Any:
    response = np.int32(response) if response else ()
    spec = SimpleNamespace(name="text:exam")
    fields = {"turns": (), "context": (), "response": response, "observation_space": SPACE, "spec": spec}
    return SimpleNamespace(num_starts=len(lengths), lengths=np.array(lengths), slot=jnp.int32(1), **fields)


def test_siri_falls_and_rises_as_a_cosine():
    part, world = SIRI(lowest=8, cycle=8), text([1])
    longest = [int(part.longest(jnp.int32(t), world.response)) for t in (0, 1, 2, 4, 6, 8, 12)]
    assert longest == [24, 22, 16, 8, 16, 24, 8]  # 8 + 16 (1 + cos(pi / 4)) / 2 = 21.7
    assert int(SIRI(lowest=8, highest=16, cycle=8).longest(jnp.int32(2), world.response)) == 12
    for wrong, words in [(SIRI(lowest=25), "to 25"), (SIRI(lowest=9, highest=8), "smaller lowest")]:
        with pytest.raises(ForageError, match=words):
            wrong.check(world)
    with pytest.raises(ForageError, match="has no response that SIRI can set"):
        SIRI(lowest=2).check(text([1], response=None))


def test_fastcurl_goes_through_sets_of_prompts_with_longer_answers():
    part, world = FastCuRL(rollouts=(2, 1, 1, 1)), text([3, 9, 4, 8])  # their mean is 6
    own, sets, longest, anew = part.first(world), [], [], []
    for _ in range(6):
        sets.append(np.flatnonzero(~np.asarray(part.leaves_out(own, KEY, world))).tolist())
        longest.append(int(part.limits(own)["response"]))
        following = part.update_state(own, None, world)  # type: ignore[arg-type]
        anew.append(bool(part.restarts(own, following)))
        own = following
    assert sets == [[0, 2], [0, 2], [0, 1, 2, 3], [1, 3], [0, 1, 2, 3], [0, 1, 2, 3]]
    assert longest == [8, 8, 16, 24, 16, 16] and anew == [False, True, True, True, False, False]
    with pytest.raises(ForageError, match="same length"):
        part.check(text([5, 5]))
    with pytest.raises(ForageError, match="one of each"):
        FastCuRL(rollouts=(1,))
    with pytest.raises(ForageError, match="none that are medium"):
        FastCuRL(sets=("medium",), shares=(1.0,), rollouts=(1,))


@pytest.mark.thorough
@pytest.mark.parametrize("tasks", [SIRI(lowest=4, cycle=2), FastCuRL(rollouts=(1, 1, 1, 1))])
def test_a_run_writes_no_more_than_its_room(tasks):
    setup = setup_of(tasks, options={"problems": 20, "level": "0-3", "room": True})
    runner = setup.runner()
    loop = runner.loops[0]
    loop.begin()
    for _ in range(3):
        loop.advance(1)
    rollout = loop.collect()[0]
    room, wrote = rollout.observation["room"], (rollout.action > 0).sum(-1)
    assert (wrote <= room).all() and (wrote == room).any() and (room < rollout.action.shape[-1]).all()
