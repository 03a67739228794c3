"""Settings of the agents of papers for small runs, added to those of the core (`small.ROWS`)."""

from __future__ import annotations

from typing import Any

import small
from small import KIT, PPO, REPLAY

from forage.rewards.weighted import WeightedRewards

MRQ: dict[str, Any] = REPLAY | {"encoder_horizon": 3, "n_step": 2, "target_interval": 6, "latent_size": 4}
MRQ |= {"action_size": 2, "hidden_size": 4, "bins": 5}

AGENTS: dict[str, tuple[str, str, dict[str, Any]]] = {  # name, environment, options
    "mdpo": ("mdpo", "CartPole-v1", PPO),
    "ppg": ("ppg", "CartPole-v1", PPO | {"policy_rollouts": 2, "auxiliary_epochs": 1, "auxiliary_minibatches": 2}),
    "ars": ("ars", "DeepSea-4", {"num_envs": 4, "top_directions": 1, "normalise_observation": False}),
    "maddpg": ("maddpg", "teams:TwoStep", REPLAY | {"hidden_sizes": (8,)}),
    "ensemble-c51": ("ensemble-c51", "CartPole-v1", REPLAY | {"hidden_sizes": (8,), "atoms": 5, "members": 2}),
    "i-dqn": (
        "i-dqn",
        "CartPole-v1",
        REPLAY | {"hidden_sizes": (8,), "target_update_interval": 16, "copy_interval": 8, "chain": 3},
    ),
    "stream-q": ("stream-q", "CartPole-v1", {"hidden_sizes": (8,), "sparsity": 0.5}),
    "stream-ac": ("stream-ac", "Pendulum-v1", {"hidden_sizes": (8,), "sparsity": 0.5}),
    "cqn-as": (
        "cqn-as",
        "Pendulum-v1",
        REPLAY | {"hidden_sizes": (8,), "levels": 2, "intervals": 3, "atoms": 5, "sequence": 2},
    ),
    "mdpo-off": ("mdpo-off", "Pendulum-v1", REPLAY | {"hidden_sizes": (8,), "sgd_steps": 5}),
    "ro2o": ("ro2o", "Pendulum-v1", REPLAY | {"hidden_sizes": (8,), "critics": 3, "neighbours": 2}),
    "e2o": ("e2o", "Pendulum-v1", REPLAY | {"hidden_sizes": (8,), "critics": 3, "candidates": 4}),
    "expo": (
        "expo",
        "Pendulum-v1",
        REPLAY
        | {"hidden_sizes": (8,), "critics": 3, "candidates": 2, "edited": 1, "flow_steps": 2}
        | {"updates_per_rollout": 2, "policy_delay": 2},
    ),
    "h2o": ("h2o", "Pendulum-v1", REPLAY | {"hidden_sizes": (8,), "classifier_sizes": (8,)}),
    "adaptive-ratio-sac": (
        "adaptive-ratio-sac",
        "Pendulum-v1",
        REPLAY | {"hidden_sizes": (8,), "check_interval": 6, "window": 3, "gap": 1.0},
    ),
    "fql": ("fql", "Pendulum-v1", REPLAY | {"hidden_sizes": (8,), "flow_steps": 2}),
    "sac-flow": (
        "sac-flow",
        "Pendulum-v1",
        REPLAY | {"hidden_sizes": (8,), "value_sizes": (8,), "noise_sizes": (8,), "flow_steps": 2},
    ),
    "maxinfo-sac": ("maxinfo-sac", "Pendulum-v1", REPLAY | {"hidden_sizes": (8,), "members": 2}),
    "mex": ("mex", "Pendulum-v1", REPLAY | {"hidden_sizes": (8,)}),
    "rrs": ("rrs", "Pendulum-v1", REPLAY | {"hidden_sizes": (8,), "redraw_interval": 16}),
    "langevin-dqn": ("langevin-dqn", "CartPole-v1", REPLAY | {"hidden_sizes": (8,)}),
    "trace-control": ("trace-control", "tabular:Chain-5", {"rollout_length": 10}),
    "episodic-control": ("episodic-control", "CartPole-v1", {"num_envs": 2, "rollout_length": 8, "capacity": 16}),
    "ucbvi": ("ucbvi", "tabular:Chain-5", {"rollout_length": 10}),
    "psrl": ("psrl", "tabular:Chain-5", {"rollout_length": 10}),
    "maxent": ("maxent", "tabular:Chain-5", {"rollout_length": 10, "episodes": 2, "capacity": 8}),
    "ppo-lagrangian": ("ppo-lagrangian", "Pendulum-cost", PPO | {"limit": 5.0}),
    "cqn": ("cqn", "Pendulum-v1", REPLAY | {"hidden_sizes": (8,), "levels": 2, "intervals": 3, "atoms": 5}),
    "droq": ("droq", "Pendulum-v1", REPLAY | KIT),
    "sac-n": ("sac-n", "Pendulum-v1", REPLAY | {"hidden_sizes": (8,), "critics": 3}),
    "edac": ("edac", "Pendulum-v1", REPLAY | {"hidden_sizes": (8,), "critics": 3}),
    "rlpd": ("rlpd", "Pendulum-v1", REPLAY | KIT),
    "wsrl": ("wsrl", "Pendulum-v1", REPLAY | KIT),
    "simba": ("simba", "Pendulum-v1", REPLAY | {"hidden_sizes": (8,), "value_sizes": (8, 8)}),
    "simba-v2": (
        "simba-v2",
        "Pendulum-v1",
        REPLAY | {"hidden_sizes": (8,), "value_sizes": (8, 8), "atoms": 5},
    ),
    "bro": (
        "bro",
        "Pendulum-v1",
        REPLAY | {"hidden_sizes": (8,), "value_sizes": (8,), "quantiles": 5, "updates_per_rollout": 2, "resets": (48,)},
    ),
    "mr-q": ("mr-q", "Pendulum-v1", MRQ),
    "mr-q-discrete": ("mr-q", "CartPole-masked", MRQ),
    "bootstrapped-dqn": ("bootstrapped-dqn", "CartPole-v1", REPLAY | {"hidden_sizes": (8,), "heads": 3}),
    "q-learning": ("q-learning", "tabular:Garnet-20", REPLAY),
    "sqirl": (
        "sqirl",
        "DeepSea-20",
        {"num_envs": 2, "rollout_length": 40, "regression_steps": 5, "hidden_sizes": (8,)},
    ),
}
small.ROWS |= AGENTS
small.PARTS["ppo-lagrangian"] = {"rewards": WeightedRewards(("reward",), (1.0,))}
