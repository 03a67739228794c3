"""From a CSV of somebody else's to a policy, its estimated value and its film. See docs/how-to/data.md."""

import csv
import functools
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import forage
import forage.data
from forage.environments.classic.cartpole import CartPole
from forage.evaluation.off_policy import LoggedEpisodes, estimate, log_episodes, soften_policy
from forage.evaluation.off_policy.estimators.fitted_q import fitted_q

WORDS = """
observation = ["x", "speed", "angle", "turning"]
action = "push"
reward = "paid"
terminated = "fell"
episode = "run"
behaviour_probability = "p"
"""


def controller(observation):
    """Probabilities of left and right: push towards where the pole leans."""
    right = (observation @ jnp.array([0.1, 0.5, 10.0, 2.0]) > 0).astype(float)
    return jnp.stack([1 - right, right], -1)


def write_log(path: Path, episodes: int) -> None:
    """Write what a plant's own software would: the controller acts, 4 of 10 actions are random."""
    log = log_episodes(CartPole(), soften_policy(controller, 0.4), episodes)
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["run", "x", "speed", "angle", "turning", "push", "paid", "fell", "p"])
        for i in range(log.transitions):
            told = (log.action[i], log.reward[i], int(log.terminated[i]), log.behaviour_probability[i])
            rows.writerow([log.numbers[i], *log.observation[i], *told])
    path.with_suffix(".toml").write_text(WORDS)


def cosines(observations, count: int = 200):
    """Random cosines of what is seen, in units of how far it spreads: values that quadratics cannot hold."""
    draw = np.random.default_rng(0)
    weights, shift = 0.5 * draw.normal(size=(4, count)), draw.uniform(0, 2 * np.pi, count)
    spread = observations.std(0)
    return lambda seen: np.concatenate([np.ones((len(seen), 1)), np.cos(seen / spread @ weights + shift)], 1)


def main(steps: int = 1_000, seeds: int = 3, directory: str = "runs/from-log", episodes: int = 60) -> None:
    log = Path(directory).with_suffix(".csv")
    log.parent.mkdir(parents=True, exist_ok=True)
    write_log(log, episodes)

    file = log.with_suffix(".npz")
    header = forage.data.convert(log, file, environment="CartPole-v1")
    print(f"{header['transitions']:,} transitions, mean return {header['mean_return']:.4g}")

    small = {"hidden_sizes": (64, 64), "learning_rate": 1e-3}
    run = forage.train(
        "iql", "CartPole-v1", data=file, steps=steps, seeds=seeds, directory=directory, agent_options=small
    )
    print("return of the policy, played:", run.score)

    agent = forage.load(directory)
    data, _ = forage.data.read(file)
    table = estimate(
        LoggedEpisodes.from_data(data),
        lambda observation: np.eye(2)[np.asarray(agent.act(observation))],
        discount=0.95,
        estimators={"fqe": functools.partial(fitted_q, features=cosines(data.observation))},
    )
    print("discounted value, estimated from the log alone:")
    print(table)
    film, _ = forage.watch(directory, steps=200)
    print(film)


if __name__ == "__main__":
    main()
