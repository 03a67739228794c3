"""Q-learning on logits and its graph: errors, rewards and values worked out by hand."""

import jax
import numpy as np
import pytest
from resuming_helpers import check_resumed
from test_grpo import collect, model, run_learn

from forage.config.resolve import resolve
from forage.core.errors import ForageError
from forage_papers.agents.language.turns.logit_q import one_step_errors
from forage_papers.environments.text.graph import GraphPaths

GRAPH = "text:forage_papers.environments.text.graph:GraphPaths"


def test_errors_of_a_conversation_by_hand():
    """Three tokens with a reply between the first two: each follows the largest value before the next one."""
    q, best = np.float32([[1, 9, 2, 4]]), np.float32([[3, 9, 5, 6]])
    reward, wrote = np.float32([[-1, 0, 0, 1]]), np.array([[True, False, True, True]])
    found = jax.jit(one_step_errors)(q, best, reward, wrote, 0.5)
    assert found.tolist() == [[1 - (-1 + 2.5), 0, 2 - 3, 4 - 1]]
    slope = jax.jit(jax.grad(lambda *x: one_step_errors(*x, reward, wrote, 0.5).sum(), argnums=(0, 1)))(q, best)
    assert slope[0].tolist() == [[1, 0, 1, 1]] and not slope[1].any()


def test_rewards_of_paths_by_hand():
    process, outcome = (GraphPaths(reward=one) for one in ("process", "outcome"))
    assert process.onward == outcome.onward and len({len(one) for one in process.onward.values()}) > 1
    for game, wrong in ((process, -1), (outcome, 0)):
        seed = next(s for s in range(99) if game.begin(s) and game.steps[game.target][game.path[0]] == 2)
        source = game.path[0]
        assert game.begin(seed) == f"{source} {game.target} {source}"
        middle = game.expert()
        assert game.reply(middle) == (f"{source} {game.target} {source} {middle}", 0, False)
        assert game.reply(game.expert())[1:] == (1, True) and game.told == {"executed": 1, "solved": 1}
        game.begin(seed)
        assert game.reply("no node")[1:] == (wrong, False) and game.path == [source]
    process.begin(seed)
    assert process.reply(process.target)[1:] == (0, True) and process.told["solved"] == 0  # 1 - 1 without an edge
    with pytest.raises(ForageError, match="no path"):
        GraphPaths(nodes=2, edges=0.0)


@pytest.mark.thorough
def test_an_update_moves_values_towards_rewards():
    options = {"model": model(), "num_envs": 8, "learning_rate": 1e-2}
    setup = resolve(
        "logit-q", GRAPH, environment_options={"tries": 3, "response": 1}, agent_options=options, steps=64, seeds=[0]
    )
    agent, state, batch = collect(setup)
    losses = []
    for _ in range(5):
        state, metrics, _ = run_learn(agent, state, batch)
        losses.append(float(metrics["q_loss"]))
    assert losses[-1] < losses[0] / 2 and metrics["length"] == 1


@pytest.mark.thorough
def test_resumed_is_as_if_never_stopped(tmp_path):
    given = {"tries": 3, "response": 1}
    options = {"model": model(), "num_envs": 8, "learning_rate": 1e-2}
    setup = resolve("logit-q", GRAPH, environment_options=given, agent_options=options, steps=64, seeds=[0])
    check_resumed(tmp_path, setup.learner().agent, GRAPH, 48, 96, environment_options=given)
