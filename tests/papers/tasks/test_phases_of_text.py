"""Phases of a text environment: limits of its episodes."""

import jax.numpy as jnp
import numpy as np
import pytest

from forage.core.types import ForageError
from forage.environments.text.environment import TextEnvironment
from forage.loop.host.starts import HostedEnvironment, HostStarts
from forage.starts.reset import Reset
from forage_papers.tasks.phases import Phases


def test_phases_of_text_are_limits(monkeypatch):
    environment = TextEnvironment("guess", 2, turns=4)
    world = HostedEnvironment.from_environment(environment, environment.spec, tasks=Phases("turns", (1, 3), (4,)))
    for wrong, words in [
        (Phases("turns", (1, 5), (4,)), "to 5, which has 1 to 4"),
        (Phases("response", (1, 5), (4,)), "no response that Phases can set; give it --env.room true"),
        (Phases("length", (1, 5), (4,)), "its limits are turns and context, and response with --env.room true"),
    ]:
        with pytest.raises(ForageError) as error:
            wrong.check(world)
        assert words in str(error.value), error.value
    given: list[dict[str, int]] = []
    monkeypatch.setattr(environment, "limit", lambda index, values: given.append(dict(values)))
    hosted = HostStarts(Reset(), environment, environment.spec, 0, Phases("turns", (1, 3), (4,)))
    hosted.first(environment.reset(0))
    assert given == [{"turns": 1}] * 2
    tasks = hosted.state.tasks
    hosted.state = hosted.state._replace(tasks=tasks._replace(part=jnp.int32(4)))  # type: ignore[union-attr]
    seen = environment.reset(0)
    hosted.begin_anew(seen, np.ones(2, bool), np.zeros(2, bool))
    assert given[2:] == [{"turns": 3}] * 2
