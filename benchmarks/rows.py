"""The workloads: what is trained, with which settings, and who takes part.

A row's settings are the same for every contestant. A contestant may override only what its library forces
(another simulator, another number of environments) or what saves time without touching the rate that is measured
(fewer steps); each override is written here, so nothing is hidden in the scripts.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

COLD, WARM, STEADY = "cold", "warm", "steady"
"""The phases. `cold`: a whole process with an empty JAX compilation cache. `warm`: the same process again, with the
cache that the cold one left behind. `steady`: the rate once everything is compiled and learning is under way."""

REFERENCE = "forage"
"""The contestant that ratios refer to, where nothing else is said."""


@dataclasses.dataclass(frozen=True)
class Contestant:
    """One library in a row. `label` is unique within the row, `peer` names a section of peers.toml."""

    label: str
    peer: str
    overrides: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    phases: tuple[str, ...] | None = None
    """Phases to take part in; all of the row's when None."""
    against: str = REFERENCE
    """The label of the Forage contestant that the ratios refer to."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One workload. `rate` names the figure that the steady phase compares."""

    name: str
    title: str
    settings: Mapping[str, Any]
    contestants: tuple[Contestant, ...]
    rate: str
    phases: tuple[str, ...] = (STEADY,)
    smoke: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Settings for a quick look at whether every script works; they win over contestants' overrides."""
    products: float = 0.0
    """Operations of an update in products of matrices, which all contestants need; zero where nobody counted."""


def operations(rows: float, sizes: tuple[int, ...], learned: bool = False, climbed: bool = False) -> float:
    """Count the operations of an MLP's products of matrices for `rows` inputs.

    Each layer takes one product forward. Where the network is `learned`, the gradient takes one for the weights of each
    layer and one for its inputs, but for those of the first; where only its input is `climbed`, one for all inputs.
    """
    layers = [2.0 * rows * inputs * outputs for inputs, outputs in itertools.pairwise(sizes)]
    return sum(layers) * (1 + learned + (learned or climbed)) - (layers[0] if learned else 0)


def of_critics(batch: int, seen: int, actions: int, delay: int = 1, joint: bool = False, samples: int = 0) -> float:
    """Count the operations of an update of SAC and its relatives, with two critics and two layers of 256 units.

    A policy learns in one update of `delay`. `joint`: critics learn from both observations of a transition in one pass,
    and there are no targets. `samples`: actions that the critics are asked of beside the data's, a third each drawn
    from the policies at both observations.
    """
    actor, critic = (seen, 256, 256, 2 * actions), (seen + actions, 256, 256, 1)
    look_ahead = operations(batch, actor) + (0 if joint else 2 * operations(batch, critic))
    critics = 2 * operations((2 if joint else 1 + samples) * batch, critic, learned=True)
    drawn = 2 * operations(batch, actor) if samples else 0
    policy = operations(batch, actor, learned=True) + 2 * operations(batch, critic, climbed=True)
    return look_ahead + critics + drawn + policy / delay


GYMNASIUM = {"simulator": "gymnasium"}
"""For libraries whose environments are not written in JAX."""

ONE_THREAD = {"torch_threads": 1}
"""With networks as small as (64, 64) PyTorch was faster on one thread than on its default, all cores."""

EIGHT = {"num_envs": 8, "rollout_length": 256}
"""As many transitions a rollout as one environment with 2048."""


PPO_CARTPOLE = Row(
    name="ppo-cartpole",
    title="PPO, CartPole-v1, 4 environments",
    # Settings: PureJaxRL (Lu et al., 2022). The number of steps is 976 whole rollouts of 512, so that nobody rounds it.
    settings={
        "algorithm": "ppo",
        "environment": "CartPole-v1",
        "simulator": "jax",
        "steps": 976 * 512,
        "num_envs": 4,
        "rollout_length": 128,
        "epochs": 4,
        "num_minibatches": 4,
        "learning_rate": 2.5e-4,
        "anneal": True,
        "clip_value": True,
        "hidden": (64, 64),
        "activation": "tanh",
        "discount": 0.99,
        "gae_lambda": 0.95,
        "clip": 0.2,
        "entropy_coefficient": 0.01,
        "value_coefficient": 0.5,
        "max_grad_norm": 0.5,
        "torch_threads": None,
        "evaluation_episodes": 20,
    },
    contestants=(
        Contestant("forage", "forage"),
        Contestant("rejax", "rejax"),
        # No compilation to cache: its cold process is its only one. Its steady rate comes from that process too.
        Contestant("sb3", "sb3", GYMNASIUM | ONE_THREAD, phases=(COLD,)),
    ),
    rate="steps_per_second",
    phases=(COLD, WARM, STEADY),
    smoke={"steps": 16 * 512},
)

PPO_CARTPOLE_SEEDS = Row(
    name="ppo-cartpole-seeds",
    title="PPO, CartPole-v1, 4 environments, 4 seeds in one process",
    settings={**PPO_CARTPOLE.settings, "num_seeds": 4},
    contestants=(Contestant("forage", "forage"), Contestant("rejax", "rejax")),
    rate="steps_per_second",
    smoke={"steps": 16 * 512},
)

SAC_PENDULUM = Row(
    name="sac-pendulum",
    title="SAC, Pendulum-v1, 1 environment, 1 update a step",
    settings={
        "algorithm": "sac",
        "environment": "Pendulum-v1",
        "simulator": "jax",
        "steps": 10_000,
        "num_envs": 1,
        "learning_starts": 1_000,
        "buffer_size": 20_000,
        "batch_size": 256,
        "updates_per_step": 1,
        "learning_rate": 3e-4,
        "hidden": (256, 256),
        "activation": "relu",
        "discount": 0.99,
        "tau": 0.005,
        "torch_threads": None,
        "evaluation_episodes": 20,
    },
    contestants=(
        Contestant("forage", "forage"),
        Contestant("rejax", "rejax"),
        Contestant("sbx", "sbx", GYMNASIUM),
        Contestant("sb3", "sb3", GYMNASIUM | {"steps": 3_000}),
    ),
    rate="updates_per_second",
    smoke={"steps": 1_500},
    products=of_critics(256, 3, 1),
)

DQN_CARTPOLE = Row(
    name="dqn-cartpole",
    title="DQN, CartPole-v1, 1 environment, 1 update a step",
    settings={
        "algorithm": "dqn",
        "environment": "CartPole-v1",
        "simulator": "jax",
        "steps": 30_000,
        "num_envs": 1,
        "learning_starts": 1_000,
        "buffer_size": 20_000,
        "batch_size": 128,
        "updates_per_step": 1,
        "learning_rate": 2.5e-4,
        "hidden": (64, 64),
        "activation": "relu",
        "discount": 0.99,
        "target_interval": 500,
        "exploration_initial": 1.0,
        "exploration_final": 0.05,
        "exploration_fraction": 0.5,
        "torch_threads": None,
        "evaluation_episodes": 20,
    },
    contestants=(
        Contestant("forage", "forage"),
        Contestant("rejax", "rejax"),
        Contestant("sbx", "sbx", GYMNASIUM),
        Contestant("sb3", "sb3", GYMNASIUM | ONE_THREAD | {"steps": 6_000}),
    ),
    rate="updates_per_second",
    smoke={"steps": 2_000},
)

PPO_HALFCHEETAH = Row(
    name="ppo-halfcheetah",
    title="PPO, HalfCheetah-v5 (MuJoCo), stable-baselines3's default settings",
    settings={
        "algorithm": "ppo",
        "environment": "HalfCheetah-v5",
        "simulator": "gymnasium",
        "steps": 10 * 2048,
        "num_envs": 1,
        "rollout_length": 2048,
        "epochs": 10,
        "num_minibatches": 32,
        "learning_rate": 3e-4,
        "anneal": False,
        "clip_value": False,
        "hidden": (64, 64),
        "activation": "tanh",
        "discount": 0.99,
        "gae_lambda": 0.95,
        "clip": 0.2,
        "entropy_coefficient": 0.0,
        "value_coefficient": 0.5,
        "max_grad_norm": 0.5,
        "torch_threads": None,
        "evaluation_episodes": 3,
    },
    contestants=(
        Contestant("forage", "forage"),
        Contestant("sbx", "sbx"),
        Contestant("sb3", "sb3", ONE_THREAD),
        Contestant("forage (EnvPool)", "forage", {"simulator": "envpool"}),
        Contestant("forage (8 envs)", "forage", EIGHT, against="forage (8 envs)"),
        Contestant("sb3 (8 envs)", "sb3", ONE_THREAD | EIGHT, against="forage (8 envs)"),
        Contestant("forage (EnvPool, 8 envs)", "forage", {"simulator": "envpool"} | EIGHT, against="forage (8 envs)"),
    ),
    rate="steps_per_second",
    smoke={"steps": 2 * 2048, "evaluation_episodes": 1},
)

PPO_WORKERS = Row(
    name="ppo-workers",
    title="PPO, HalfCheetah (MuJoCo), 16 environments, stepped by two workers where a library has them",
    # Sample Factory's own settings for MuJoCo: its four batches of 1024 transitions, two epochs, here from 16
    # environments. It cuts them into segments of 64 steps, and has version 4 of the environment, with Gymnasium 0.29.
    settings={
        **PPO_HALFCHEETAH.settings,
        "steps": 40 * 4096,
        "num_envs": 16,
        "rollout_length": 256,
        "segment": 64,
        "epochs": 2,
        "num_minibatches": 4,
        "workers": 2,
        "policy_lag": None,
    },
    contestants=(
        Contestant("forage", "forage", {"policy_lag": 0}),  # the same numbers as the next two, bit by bit
        Contestant("forage (workers only step)", "forage"),
        Contestant("forage (no workers)", "forage", {"workers": 0}),
        Contestant("forage (EnvPool)", "forage", {"simulator": "envpool", "workers": 0}),
        Contestant("sample factory", "sample_factory"),
        Contestant("sb3", "sb3", ONE_THREAD | {"steps": 8 * 4096}),
    ),
    rate="steps_per_second",
    smoke={"steps": 4 * 4096, "evaluation_episodes": 1},
)

PPO_PONG = Row(
    name="ppo-pong",
    title="PPO, Atari's Pong, 8 environments, the image network of Mnih and others (2015)",
    # Sample Factory's own settings for Atari, here from two workers of four environments in place of eight of one, and
    # without its scaling by what was seen of inputs and returns, which others would have to pay for as well. It steps
    # Gymnasium's environments with ale-py 0.10, Forage ale-py's vector environment.
    settings={
        "algorithm": "ppo",
        "environment": "Pong",
        "simulator": "ale",
        "rewards": "atari",
        "steps": 12 * 1024,
        "num_envs": 8,
        "rollout_length": 128,
        "segment": 128,
        "epochs": 4,
        "num_minibatches": 4,
        "learning_rate": 2.5e-4,
        "anneal": True,
        "clip_value": False,
        "hidden": (),
        "activation": "relu",
        "discount": 0.99,
        "gae_lambda": 0.95,
        "clip": 0.1,
        "entropy_coefficient": 0.01,
        "value_coefficient": 0.5,
        "max_grad_norm": 0.5,
        "workers": 0,
        "torch_threads": None,
        "evaluation_episodes": 1,
    },
    contestants=(
        Contestant("forage", "forage"),
        Contestant("sample factory", "sample_factory", {"workers": 2}),
    ),
    rate="steps_per_second",
    smoke={"steps": 4 * 1024},
)

SAC_HALFCHEETAH = Row(
    name="sac-halfcheetah",
    title="SAC, HalfCheetah-v5 (MuJoCo), 1 environment, 1 update a step",
    settings={
        "algorithm": "sac",
        "environment": "HalfCheetah-v5",
        "simulator": "gymnasium",
        "steps": 6_000,
        "num_envs": 1,
        "learning_starts": 1_000,
        "buffer_size": 20_000,
        "batch_size": 256,
        "updates_per_step": 1,
        "learning_rate": 3e-4,
        "hidden": (256, 256),
        "activation": "relu",
        "discount": 0.99,
        "tau": 0.005,
        "torch_threads": None,
        "evaluation_episodes": 3,
    },
    contestants=(
        Contestant("forage", "forage"),
        Contestant("sbx", "sbx"),
        Contestant("sb3", "sb3", {"steps": 3_000}),
    ),
    rate="updates_per_second",
    smoke={"steps": 1_500, "evaluation_episodes": 1},
)

DROQ_PENDULUM = Row(
    name="droq-pendulum",
    title="DroQ, Pendulum-v1, 1 environment, 20 updates a step",
    settings={
        **SAC_PENDULUM.settings,
        "algorithm": "droq",
        "steps": 700,
        "learning_starts": 200,
        "updates_per_step": 20,
        "policy_delay": 20,
        "dropout": 0.01,
    },
    contestants=(Contestant("forage", "forage"), Contestant("sbx", "sbx", GYMNASIUM)),
    rate="updates_per_second",
    smoke={"steps": 400},
    products=of_critics(256, 3, 1, delay=20),
)


CROSSQ_PENDULUM = Row(
    name="crossq-pendulum",
    title="CrossQ, 256 wide, Pendulum-v1, 1 environment, 1 update a step",
    settings={**SAC_PENDULUM.settings, "algorithm": "crossq", "steps": 6_000},
    contestants=(Contestant("forage", "forage"), Contestant("sbx", "sbx", GYMNASIUM)),
    rate="updates_per_second",
    smoke={"steps": 1_500},
    products=of_critics(256, 3, 1, delay=3, joint=True),
)


ES_CARTPOLE = Row(
    name="es-cartpole",
    title="OpenES, CartPole-v1, 256 members, 64 units",
    settings={
        "algorithm": "open-es",
        "environment": "CartPole-v1",
        "simulator": "jax",
        "steps": 100 * 256 * 500,
        "population": 256,
        "sigma": 0.05,
        "learning_rate": 0.02,
        "hidden": (64,),
        "activation": "tanh",
        "evaluation_episodes": 20,
    },
    # An update is a generation. Those of evosax play 500 steps a member whatever happens; Forage's end with the last
    # episode, which after the first few is as long.
    contestants=(Contestant("forage", "forage"), Contestant("evosax", "evosax")),
    rate="updates_per_second",
    smoke={"steps": 4 * 256 * 500},
)


def of_iql(batch: int, seen: int, actions: int) -> float:
    """Count the operations of an update of IQL: a value, two critics and a policy learn; the targets are asked once."""
    value, critic, actor = (seen, 256, 256, 1), (seen + actions, 256, 256, 1), (seen, 256, 256, actions)
    learned = [operations(batch, sizes, learned=True) for sizes in (value, critic, critic, actor)]
    return sum(learned) + operations(batch, value) + 2 * operations(batch, critic)


def of_td3_bc(batch: int, seen: int, actions: int) -> float:
    """Count the operations of an update of TD3+BC, whose policy learns every second time and climbs one critic."""
    critic, actor = (seen + actions, 256, 256, 1), (seen, 256, 256, actions)
    policy = operations(batch, actor, learned=True) + operations(batch, critic, climbed=True)
    ahead = operations(batch, actor) + 2 * operations(batch, critic)
    return ahead + 2 * operations(batch, critic, learned=True) + policy / 2


def from_data(algorithm: str, title: str, updates: int, products: float) -> Row:
    """Return the row of an agent that learns from 100,000 random transitions of HalfCheetah's shapes."""
    return Row(
        name=f"{algorithm}-data",
        title=f"{title} from 100,000 random transitions, 17 numbers seen, 6 actions",
        settings={
            "algorithm": algorithm,
            "transitions": 100_000,
            "observations": 17,
            "actions": 6,
            "updates": updates,
            "batch_size": 256,
            "learning_rate": 3e-4,
            "hidden": (256, 256),
            "discount": 0.99,
            "tau": 0.005,
            "torch_threads": None,
        },
        contestants=(Contestant("forage", "forage-data"), Contestant("d3rlpy", "d3rlpy", {"updates": updates // 4})),
        rate="updates_per_second",
        smoke={"updates": 40},
        products=products,
    )


def of_text(name: str, part: str, title: str) -> Row:
    """Return a row of a language model: a step is a token, and the process is kept to one core."""
    return Row(
        name=name,
        title=f"{title}, Llama of 1.1 million parameters, 8 prompts of 24 tokens, 8 answers of 64 tokens to each",
        settings={
            "algorithm": "grpo-text",
            "part": part,
            "model": {"vocabulary": 512, "width": 128, "layers": 5, "heads": 4, "inner": 384, "length": 1024},
            "prompts": 8,
            "group": 8,
            "prompt_tokens": 24,
            "new_tokens": 64,
            "updates": 20,
            "learning_rate": 1e-5,
            "cores": 1,
        },
        contestants=(Contestant("forage", "forage-text"), Contestant("trl", "trl")),
        rate="steps_per_core_second",
        smoke={"updates": 2},
    )


ROWS: dict[str, Row] = {
    row.name: row
    for row in (
        *(PPO_CARTPOLE, PPO_CARTPOLE_SEEDS, SAC_PENDULUM, DQN_CARTPOLE, PPO_HALFCHEETAH, SAC_HALFCHEETAH),
        *(PPO_WORKERS, PPO_PONG),
        *(
            DROQ_PENDULUM,
            CROSSQ_PENDULUM,
            ES_CARTPOLE,
            from_data("iql", "IQL", 4000, of_iql(256, 17, 6)),
            from_data("td3-bc", "TD3+BC", 4000, of_td3_bc(256, 17, 6)),
        ),
        from_data("cql", "CQL", 600, of_critics(256, 17, 6, samples=30)),
        of_text("grpo-text", "step", "GRPO, a whole step"),
        of_text("generate-text", "generate", "Generation alone"),
    )
}
