"""A run is extended to more steps than it was made with: its changes are reported, recorded, and the only ones."""

import jax
import numpy as np
import pytest
import small
from small import differing_files

import forage
from forage.config.resolve import from_config
from forage.core import checkpoint
from forage.core.types import ForageError
from forage.runs.changes import extend_setup
from forage.runs.run import Run

small.keep_compiled()


@pytest.mark.parametrize(
    "environment", ["CartPole-v1", pytest.param("gymnasium:CartPole-v1", marks=pytest.mark.thorough)]
)
def test_a_finished_run_goes_on(environment, tmp_path, capsys):
    run = small.train(tmp_path / "run", environment=environment, steps=96)
    first = run.rows
    assert small.run_command(capsys, "resume", run.directory, "--steps", "192", "--plain")[0] == 0
    again = Run(run.directory)
    assert again.config["steps"] == 192 and again.evaluation["steps"] == 192
    (event,) = again.history
    assert event.pop("date") and event == {"event": "extended", "steps": 96, "from": 96, "to": 192}
    assert again.rows[: len(first)] == first and again.rows[-1]["steps"] == 192
    # The same words again, as after a stop, ask for nothing new.
    forage.resume(run.directory, steps=192, display="quiet")
    assert len(Run(run.directory).history) == 1
    with pytest.raises(ForageError, match=r"is a run of 192 steps of each seed.*192 or more, not 100"):
        forage.resume(run.directory, steps=100, display="quiet")


@pytest.mark.thorough
def test_no_number_changes_but_the_total(tmp_path):
    """An extended run is the program of the longer run, continued from the shorter one's checkpoint."""
    run = small.train(tmp_path / "run", "dqn", seeds=[3], steps=96)
    start = checkpoint.arrays(run.checkpoints[-1])
    longer, extension = extend_setup(run, from_config(run.config), 384)
    assert extension is not None
    lines = extension.lines(longer, 96)
    assert "from 96 to 384 steps" in lines[0] and "from 100 % to 25 %" in lines[0]
    assert "newest 96 transitions" in lines[1]
    forage.resume(run.directory, steps=192, display="quiet")
    again = Run(run.directory)
    assert again.config["memory"]["capacity"] == 96

    setup = from_config(again.config)
    assert setup.steps == 192
    runner = setup.runner()
    like = runner.shapes()
    names = [name for name, _ in checkpoint.named_leaves(like)]
    assert names == list(start)
    leaves = [
        jax.random.wrap_key_data(start[name], impl=checkpoint.generator_of(leaf))
        if checkpoint.is_key(leaf)
        else start[name]
        for name, leaf in checkpoint.named_leaves(like)
    ]
    runner.restore(jax.tree.unflatten(jax.tree.structure(like), leaves), 96)
    runner.advance(96 // runner.steps_per_iteration)
    runner.save(tmp_path / "by-hand.npz", {"steps": runner.steps})
    assert differing_files(tmp_path / "by-hand.npz", again.checkpoints[-1]) == []
    assert not np.array_equal(
        start[".learner.memory.action"], checkpoint.arrays(again.checkpoints[-1])[".learner.memory.action"]
    )
