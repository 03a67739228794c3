"""Numbers and records that mislead"""

import dataclasses
import json
import shutil

import jax.numpy as jnp
import numpy as np
import small
from gymnasium import spaces

import forage
from forage.cli.arguments import seeds
from forage.config import part_data
from forage.core.ports import Environment
from forage.core.types import Step
from forage.evaluation.statistics import score
from forage.runs import display
from forage.runs.run import Run


def test_a_sweep_is_judged_by_setting(sweep, capsys):
    """Read the score of a sweep, 8 learning rates x 3 seeds

    Before: `forage evaluate`, `Run.score` and the progress say "(24 seeds)", as if different agents were seeds of one;
    `watch` and `load` take the best of the 24 without a word.
    Now: each setting has a score of its own, `Run.scores`, and progress shows the best one's, with "the best of 2
    settings"; `watch` and `load` take the best seed of the best setting.
    """
    code, out, _ = small.run_command(capsys, "evaluate", sweep.directory, "--episodes", "2")
    assert code == 0 and out.count("(2 seeds)") == 2 and "4 seeds" not in out
    assert "with learning_rate=0.001: return" in out and "with learning_rate=0.0001: return" in out
    scores = Run(sweep.directory).scores
    best = max(scores, key=lambda label: scores[label].value)
    assert all(one.seeds == 2 for one in scores.values())
    assert f"learning_rate={forage.load(sweep.directory).member['learning_rate']:g}" == best
    assert display.shown_return([1.0, 2.0, 3.0, 4.0], 2).endswith(
        "(2 seeds), the best of 2 settings, selected by this score, which flatters it"
    )


def test_progress_tells_when_no_episode_has_ended(make_run):
    """Look at the progress of DeepSea-10, with episodes of ten steps

    Before: "no episode has ended yet" at step 3,000, which meant that none had ended since the last line; "(4 seeds)",
    "(3 seeds)", "(5 seeds)" flicker.
    Now: a line shows the mean of each seed's last 100 episodes or more; where none has ended for long it adds "none
    has ended since step 3,000".
    """
    row = {"steps": 9_000, "newest": [9.0, 11.0], "quiet_since": 3_000, "steps_per_second": 10.0}
    assert display.returns(row) == f"return {score(np.array([9.0, 11.0]))}; none has ended since step 3,000"
    assert display.returns(row | {"quiet_since": None}).endswith("(2 seeds)")


def test_what_a_run_is_resumed_with_is_kept(run):
    """Resume with another learning rate: `resume(dir, agent=PPO(learning_rate=1e-5))`

    Before (seen again): trains so, and `config.json` still says 0.001.
    Now: `config.json` says 1e-05, and `history.jsonl` what it was before which step.
    """
    agent = dataclasses.replace(part_data.from_config(run.config["agent"]), learning_rate=1e-5)
    was = run.config["agent"]["learning_rate"]
    forage.resume(run.directory, agent=agent, display="quiet")
    assert json.loads((run.directory / "config.json").read_text())["agent"]["learning_rate"] == 1e-05
    assert Run(run.directory).history[0]["settings"] == {"agent.learning_rate": [str(was), "1e-05"]}


def test_an_agent_as_an_object_says_what_it_lacks(capsys, tmp_path):
    """Give the agent as an object: `train(forage.PPO(hidden_sizes=(128, 128)), "CartPole-v1")`

    Before: silently loses the preset that `train("ppo", ...)` has: 109 in place of 384 at 8,000 steps.
    Now: the start of the run says which settings "ppo as an object keeps its class's defaults" without.
    """
    agent = forage.PPO(**small.PPO)
    forage.train(
        agent, "CartPole-v1", steps=16, seeds=2, evaluation_episodes=2, directory=tmp_path / "run", display="plain"
    )
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "as an object" in line)
    assert "ppo as an object keeps its class's defaults" in line and "agent='ppo' with agent_options has both" in line


def test_seeds_mean_the_same_everywhere(capsys):
    """Ask for five seeds: `train --seeds 5`, `tune --seeds 5`

    Before: five seeds in `train`, seed number 5 alone in `tune`; nobody says that "3," is number 3 alone.
    Now: five seeds in both, and "3," is number 3 alone, which the help of both says.
    """
    for command in ("train", "tune"):
        _, out, _ = small.run_command(capsys, command, "--help")
        assert "(3, with its comma: seed 3 alone" in " ".join(out.split())
    assert seeds({"seeds": "5"}) == 5 and seeds({"seeds": "3,"}) == (3,)


def test_fields_of_environments_have_ranges(capsys, tmp_path):
    """A pole of negative length: `--env.length -1`

    Before (seen again): trains, and scores 500.
    Now: "length of CartPole-v1 is above 0, not -1."
    """
    words = ("train", "ppo", "CartPole-v1", "--env.length", "-1", "--directory", tmp_path / "run")
    code, _, err = small.run_command(capsys, *words)
    assert (code, err) == (2, "length of CartPole-v1 is above 0, not -1.\n") and not (tmp_path / "run").exists()


def test_what_is_not_shown_is_inconclusive(make_run, capsys, tmp_path):
    """Compare two agents with three seeds each

    Before (seen again): PPO "is not shown to be better ... wins with probability 1.00 [1.00, 1.00]".
    Now: "Inconclusive: ", the difference and the probability with intervals that cover them, and how many seeds would
    settle it at least.
    """
    said = compare_runs(make_run, capsys, tmp_path, [500.0, 500.0, 160.0], [150.0, 150.0, 150.0])
    assert said.startswith("Inconclusive: ") and "with probability 1.00, 95 % CI 0.29 to 1.00" in said
    assert said.endswith("train at least 5 of each.")
    shown = compare_runs(make_run, capsys, tmp_path, [500.0, 490.0, 495.0], [150.0, 151.0, 149.0])
    assert "better than" in shown and "with probability 1.00" in shown


def compare_runs(made, capsys, tmp_path, *returns):
    """Return the last sentence of `forage compare` on two runs with these returns, one for each seed."""
    places = []
    for number, values in enumerate(returns):
        directory = shutil.copytree(made.directory, tmp_path / f"run-{number}", dirs_exist_ok=True)
        evaluation = json.loads((directory / "evaluation.json").read_text())
        members = [{"seed": seed} for seed in range(len(values))]
        config = json.loads((directory / "config.json").read_text()) | {"seeds": list(range(len(values)))}
        (directory / "config.json").write_text(json.dumps(config))
        rows = [json.loads(line) for line in (made.directory / "metrics.jsonl").read_text().splitlines()]
        longer = [{k: v + v[:1] if isinstance(v, list) and len(v) == 2 else v for k, v in row.items()} for row in rows]
        (directory / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in longer))
        (directory / "evaluation.json").write_text(json.dumps(evaluation | {"return": values, "members": members}))
        places.append(directory)
    code, out, err = small.run_command(capsys, "compare", *places, "--output", tmp_path / "both.png")
    assert code == 0, err
    return next(line for line in out.splitlines() if "better" in line or "Inconclusive" in line)


class Endless(Environment):
    """An endless environment with reward 1 at each step."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, key):
        return jnp.zeros(()), jnp.zeros(1)

    def step(self, state, action, key):
        return state, Step(jnp.zeros(1), jnp.float32(1), jnp.bool_(False), jnp.bool_(False), {})


def test_a_cut_episode_is_said_to_be_cut(capsys, tmp_path):
    """Evaluate in an environment that never ends

    Before: its score is 27000, with no word that episodes were cut.
    Now: "1 of 1 episodes were cut after 27,000 steps", beside the score and in `evaluation.json`.
    """
    given = {"steps": 16, "seeds": 1, "evaluation_episodes": 1, "evaluation_actions": "greedy", "display": "plain"}
    run = forage.train("ppo", Endless(), agent_options=small.PPO, directory=tmp_path / "run", **given)
    assert "1 of 1 episodes were cut after 27,000 steps" in capsys.readouterr().out
    assert run.evaluation["return"] == [27_000] and run.evaluation["cut"] == 1
