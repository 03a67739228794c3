"""A person's own function looks at a run while it trains, stops it, or fails, and the run stands."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import small
from small import differing_files

import forage
from forage.core.types import ForageError
from forage.runs.run import Run
from forage.runs.session import Session

small.keep_compiled()


class AskedError(Exception):
    pass


@pytest.mark.parametrize(
    "environment", ["CartPole-v1", pytest.param("gymnasium:CartPole-v1", marks=pytest.mark.thorough)]
)
def test_a_callback_sees_stops_and_leaves_no_trace(environment, tmp_path):
    seen = []

    def look(run):
        seen.append(run)
        action = run.policy(seed=7).act(np.zeros(4, np.float32))
        assert action in (0, 1) and run.policy(seed=7).member == {"seed": 7}
        assert run.evaluate(2).seeds == 2
        assert run.directory == tmp_path / "run" and run.row["steps"] == run.steps
        if run.steps >= 48:
            run.save()
            run.stop("it is enough")

    run = small.train(tmp_path / "run", environment=environment, callbacks=[look])
    at = seen[-1].steps
    assert len(seen) > 1 and 48 <= at < 160 and run.rows[-1]["steps"] == at
    (event,) = run.history
    assert event.pop("date") and event == {"event": "stopped", "steps": at, "reason": "it is enough"}
    assert run.evaluation["steps"] == at
    # It goes on as if nobody had looked.
    forage.resume(run.directory, display="quiet")
    whole = small.train(tmp_path / "whole", environment=environment)
    assert Run(run.directory).evaluation["steps"] == 160
    assert differing_files(run.checkpoints[-1], whole.checkpoints[-1]) == []


def test_false_from_a_callback_stops_the_run(tmp_path):
    """As in Stable-Baselines3; the values of other lambdas do not stop it."""
    runner, setup = SimpleNamespace(steps=32), SimpleNamespace(members=[])
    session: Any = SimpleNamespace(runner=runner, setup=setup, directory=tmp_path, stopped="", calling=0.0)
    for callback, reason in ((lambda run: 0, ""), (lambda run: run.steps < 32, "a callback returned False")):
        session.callbacks = [callback]
        Session.call_back(session, {})
        assert session.stopped == reason


def test_an_exception_saves_first(tmp_path):
    def fail(run):
        if run.steps >= 32:
            raise AskedError("no more")

    with pytest.raises(AskedError, match="no more") as caught:
        small.train(tmp_path / "run", callbacks=[fail], checkpoint_seconds=1e6)
    run = Run(tmp_path / "run")
    kept = int(run.checkpoints[-1].stem)
    assert kept >= 32
    assert caught.value.__notes__ == [
        f"A callback raised this. The run is kept as of step {kept:,} in {tmp_path / 'run'}."
    ]
    with pytest.raises(ForageError, match=r"a reason, a text.* The run is kept as of step"):
        forage.resume(tmp_path / "run", display="quiet", callbacks=[lambda run: run.stop("")])


def test_what_is_no_callback_is_refused(tmp_path):
    for given in ([3], print, "look"):
        with pytest.raises(ForageError, match=r"callbacks is a list of functions"):
            small.train(tmp_path / "run", callbacks=given)
    assert not (tmp_path / "run").exists()
