"""Walls"""

import functools
import json
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import jax
import numpy as np
import optax
import pytest
import small
from corridor import Corridor

import forage
from forage.config.resolve import resolve
from forage.core.errors import ForageError
from forage.runs.run import Run

ROOT = Path(__file__).parents[2]


def length_of(setup):
    """Return the length of an episode in a setup's environment."""
    host = setup.environment(1)
    host.reset(0)
    steps = 1
    while not host.step(np.zeros(1, np.int32)).step.terminated[0]:
        steps += 1
    return steps


def test_an_environment_that_is_an_object(tmp_path):
    """Train in an object: one's own, or `gymnasium.make(...)`

    Before: refused, "not a Corridor", and nobody says to give its class.
    Now: trains in copies of it, with the numbers that it has; the object is left as it is.
    """
    mine, theirs = Corridor(4), gymnasium.wrappers.TimeLimit(Corridor(9), 5)
    given = {"steps": 16, "seeds": 1, "evaluation_episodes": 1, "evaluation_actions": "greedy", "display": "quiet"}
    run = forage.train("ppo", mine, agent_options=small.PPO, directory=tmp_path / "run", **given)
    assert run.score.value == 4 and not hasattr(mine, "time")
    assert resolve("ppo", theirs).spec.horizon == 5
    assert resolve("ppo", gymnasium.make("CartPole-v1")).settings_from.startswith("preset")


def test_an_environment_that_a_function_makes():
    """Train in the result of a function: `lambda: Env()`, `functools.partial(Env, length=4)`

    Before: a raw `TypeError`.
    Now: trains.
    """
    assert length_of(resolve("ppo", lambda: Corridor(5))) == 5
    assert length_of(resolve("ppo", functools.partial(Corridor, length=4))) == 4


def test_a_class_with_options():
    """Train in a class with `environment_options`

    Before: refused, "Options go with its id; an object already has its own".
    Now: trains, and `config.json` keeps the options.
    """
    setup = resolve("ppo", Corridor, environment_options={"length": 6})
    assert length_of(setup) == 6 and setup.config()["environment"]["options"] == {"length": 6}


def test_a_vector_environment():
    """Train in `gymnasium.make_vec(...)` or a VectorEnv

    Before (seen again): refused.
    Now: a function of their number trains; an object, which is a fixed number, is answered with that.
    """
    how = {"vectorization_mode": "sync", "vector_kwargs": {"autoreset_mode": "SameStep"}}
    assert resolve("ppo", lambda n: gymnasium.make_vec("CartPole-v1", n, **how)).spec.horizon == 500
    with pytest.raises(ForageError, match="give a function of that number that makes them, lambda n: gym"):
        resolve("ppo", gymnasium.make_vec("CartPole-v1", num_envs=2))
    with pytest.raises(ForageError, match=r"lambda n: SyncVectorEnv\(...\)"):
        resolve("ppo", gymnasium.vector.SyncVectorEnv([Corridor]))


def test_a_learning_rate_that_is_a_schedule():
    """A learning rate as a function or an optax schedule

    Before: a raw `TypeError` of JAX.
    Now: any optax schedule, function or words such as `linear:1e-3,0`, over the share of the run that is over.
    """
    falling = optax.linear_schedule(1e-3, 0.0, transition_steps=1)
    for given in (falling, lambda share: 1e-3 * (1 - share), "linear:1e-3,0"):
        rate = resolve("ppo", "CartPole-v1", learning_rate=given).agent.learning_rate
        assert float(rate(0.25)) == pytest.approx(0.75e-3)


def test_a_network_of_ones_own():
    """A callable activation, other sizes for the value, layer norm, a network by the user

    Before (seen again): impossible.
    Now: options of the agent; the encoder as `my_networks.py:Class`.
    """
    own = {"activation": lambda x: x**3, "encoder": f"{ROOT / 'tests' / 'nn' / 'my_networks.py'}:Sines"}
    more = {"hidden_sizes": (8,), "value_sizes": (4, 4), "layer_norm": True}
    setup = resolve("ppo", "CartPole-v1", agent_options=own | more)
    network = jax.eval_shape(lambda: setup.agent.init(jax.random.key(0), setup.spec)).network
    assert [layer.bias.shape for layer in network.state_torso.body.layers] == [(4,), (4,)]
    assert len(network.state_torso.body.norms) == 2 and network.torsos.encoder is not None


def test_options_of_the_agent_beside_those_of_the_run():
    """`train("ppo", "CartPole-v1", learning_rate=1e-3)`

    Before (seen again): refused, though well answered.
    Now: taken, as in `agent_options`.
    """
    assert resolve("ppo", "CartPole-v1", learning_rate=1e-3).agent.learning_rate == 1e-3


def test_a_callback(tmp_path):
    """Look on while it trains, and stop it

    Before: a subclass of the display, which cannot stop it; after an exception only the checkpoint of step 0 is left.
    Now: `callbacks=[...]` see numbers and policy, and stop the run with a reason that stands in its record; an
    exception in one saves first.
    """

    def look(run):
        if run.steps >= 16:
            assert run.policy().act(np.zeros(4, np.float32)) in (0, 1)
            run.stop("it is enough")

    def fail(run):
        raise ZeroDivisionError

    stopped = small.train(tmp_path / "stopped", callbacks=[look])
    assert stopped.history[0]["reason"] == "it is enough" and stopped.evaluation["steps"] < 160
    with pytest.raises(ZeroDivisionError):
        small.train(tmp_path / "failed", callbacks=[fail])
    assert int(Run(tmp_path / "failed").checkpoints[-1].stem) > 0


def test_acting_on_a_batch(make_run):
    """`agent.act` on a batch

    Before (seen again): refused, "One observation of CartPole-v1 has shape (4,), not (3, 4)".
    Now: an action for each observation.
    """
    observations = np.linspace(-0.1, 0.1, 12, dtype=np.float32).reshape(3, 4)
    assert make_run.agent.act(observations).tolist() == [int(make_run.agent.act(one)) for one in observations]


def test_going_on(run, tmp_path):
    """Train longer; begin with the weights of another run, in another task

    Before (seen again): impossible but by editing `config.json`; `resume(steps=)` is a raw `TypeError`.
    Now: `forage resume RUN --steps N`; `forage train --from RUN`, in any task whose spaces agree.
    """
    forage.resume(run.directory, steps=176, display="quiet")
    assert Run(run.directory).evaluation["steps"] == 176
    given = {"environment_options": {"length": 1.0}, "seeds": [3, 7], "steps": 16, "evaluation_episodes": 2}
    begun = forage.train(start_from=run.directory, directory=tmp_path / "begun", display="quiet", **given)
    assert begun.parent["run"] == str(run.directory)
    assert begun.config["environment"]["options"] == {"length": 1.0}


def test_a_run_in_words_and_as_a_table(make_run):
    """Look at a run in Python: its curve in pandas, `repr(run)`

    Before (seen again): lists in cells; an address.
    Now: `run.to_pandas()` has a row for each point and seed; `repr` says agent, environment, steps and score.
    """
    assert "ppo on CartPole-v1, 2 seeds, 160 steps each" in repr(make_run) and str(make_run.score) in repr(make_run)
    pytest.importorskip("pandas", reason="pandas is not installed")
    assert make_run.to_pandas()["seed"].unique().tolist() == [3, 7]


def test_what_python_has(make_run, tmp_path):
    """`forage.tune`, `forage.compare`, `forage.report`, `forage.watch`

    Before (seen again): not there.
    Now: there, and `forage.claim` too.
    """
    assert {"tune", "compare", "report", "watch", "claim"} <= set(dir(forage))
    assert forage.report([make_run], tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_a_notebook(make_run):
    """Work in a notebook

    Before (seen again): plain lines; no `_repr_html_`.
    Now: a run shows its score and its curve, and progress stays in place.
    """
    page = make_run._repr_html_()
    assert f"return {make_run.score}" in page and "data:image/png;base64," in page


def test_weights_and_biases(capsys):
    """`--track wandb`

    Before (seen again): "There is no extra called 'wandb'; there are tensorboard."
    Now: Weights & Biases is a tracker; where the package is missing, "pip install 'forage-rl[wandb]'".
    """
    try:
        import wandb  # noqa: F401
    except ImportError:
        code, _, err = small.run_command(capsys, "train", "ppo", "CartPole-v1", "--track", "wandb")
        assert code == 2 and "pip install 'forage-rl[wandb]'" in err
    else:
        from forage.runs.trackers import tracker_names

        assert tracker_names("wandb") == ["wandb"]


def test_editors(tmp_path):
    """Editors and type checkers

    Before: "Module has no attribute train"; no completion; ports hidden in `**options: Any`.
    Now: `py.typed`, every name of `forage.*`, and a type for each argument of `train`.
    """
    assert (Path(forage.__file__).parent / "py.typed").exists() and "train" in dir(forage)
    script = tmp_path / "script.py"
    script.write_text('import forage\n\nforage.train("ppo", "CartPole-v1", rewards=3)\n')
    (tmp_path / "pyrefly.toml").touch()
    pytest.importorskip("pyrefly", reason="pyrefly is not installed")
    check = [sys.executable, "-m", "pyrefly", "check", "--output-format", "json", str(script)]
    found = subprocess.run([*check, "--python-interpreter-path", sys.executable], capture_output=True, text=True)
    (error,) = json.loads(found.stdout)["errors"]
    assert error["line"] == 3 and "rewards" in error["description"]


def test_other_machines():
    """A GPU, a TPU, Windows

    Before: no word.
    Now: a page, [GPUs](../how-to/gpu.md), says how, and what was tried.
    """
    page = (ROOT / "docs" / "how-to" / "gpu.md").read_text()
    assert all(word in page for word in ("jax[cuda13]", "jax[tpu]", "Windows", "macOS"))
    assert re.search(r"how-to/gpu\.md", (ROOT / "docs" / "README.md").read_text())
