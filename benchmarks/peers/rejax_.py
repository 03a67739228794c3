"""rejax: whole training runs compiled into one program, environments from gymnax."""

from __future__ import annotations

import time
from typing import Any

import common
import jax
import optax
import rejax
from rejax.evaluate import evaluate

SECONDS_IMPORT = common.seconds_since_start()


def ppo(settings: dict[str, Any]) -> Any:
    if not settings["clip_value"]:
        raise SystemExit("rejax's PPO always clips the value; give this row clip_value=True.")
    learning_rate: Any = settings["learning_rate"]
    if settings["anneal"]:
        rollouts = settings["steps"] // (settings["num_envs"] * settings["rollout_length"])
        learning_rate = optax.linear_schedule(
            learning_rate, 0.0, rollouts * settings["epochs"] * settings["num_minibatches"]
        )
    return rejax.get_algo("ppo").create(
        env=settings["environment"],
        agent_kwargs={"activation": settings["activation"], "hidden_layer_sizes": tuple(settings["hidden"])},
        num_envs=settings["num_envs"],
        num_steps=settings["rollout_length"],
        num_epochs=settings["epochs"],
        num_minibatches=settings["num_minibatches"],
        learning_rate=learning_rate,
        gamma=settings["discount"],
        gae_lambda=settings["gae_lambda"],
        clip_eps=settings["clip"],
        ent_coef=settings["entropy_coefficient"],
        vf_coef=settings["value_coefficient"],
        max_grad_norm=settings["max_grad_norm"],
    )


def sac(settings: dict[str, Any]) -> Any:
    return rejax.get_algo("sac").create(
        env=settings["environment"],
        agent_kwargs={"activation": settings["activation"]},
        hidden_layer_sizes=tuple(settings["hidden"]),
        polyak=1 - settings["tau"],
        **off_policy(settings),
    )


def dqn(settings: dict[str, Any]) -> Any:
    if tuple(settings["hidden"]) != (64, 64):
        raise SystemExit("rejax's DQN always has hidden layers (64, 64); give this row hidden=(64, 64).")
    return rejax.get_algo("dqn").create(
        env=settings["environment"],
        agent_kwargs={"activation": settings["activation"]},
        ddqn=False,
        polyak=0.0,  # the target network becomes a copy
        target_update_freq=settings["target_interval"],
        eps_start=settings["exploration_initial"],
        eps_end=settings["exploration_final"],
        exploration_fraction=settings["exploration_fraction"],
        **off_policy(settings),
    )


def off_policy(settings: dict[str, Any]) -> dict[str, Any]:
    """What SAC and DQN have in common."""
    return {
        "num_envs": settings["num_envs"],
        "num_epochs": settings["updates_per_step"],
        "buffer_size": settings["buffer_size"],
        "fill_buffer": settings["learning_starts"],
        "batch_size": settings["batch_size"],
        "learning_rate": settings["learning_rate"],
        "gamma": settings["discount"],
    }


def lasting(algorithm: Any, steps: int) -> Any:
    """The algorithm for that many steps, with rejax's own periodic evaluation switched off."""
    return algorithm.replace(
        total_timesteps=steps, eval_freq=steps, skip_initial_evaluation=True, eval_callback=lambda *_: ()
    )


def train_on_policy(algorithm: Any, settings: dict[str, Any], key: Any) -> tuple[Any, dict[str, Any]]:
    began = time.perf_counter()
    count = settings["num_seeds"]
    one = lambda key: algorithm.train(key)[0]  # noqa: E731
    keys = key if count == 1 else jax.random.split(key, count)
    train = jax.jit(one if count == 1 else jax.vmap(one)).lower(keys).compile()
    compiled = time.perf_counter()
    if settings["phase"] == "steady":
        jax.block_until_ready(train(keys + 1))  # other keys
    ready = time.perf_counter()
    state = jax.block_until_ready(train(keys))
    ended = time.perf_counter()
    rollouts = settings["steps"] // (settings["num_envs"] * settings["rollout_length"])
    return state, {
        "seconds_compile": compiled - began,
        "seconds_steady": ended - ready,
        "seconds_outside": ready - compiled,
        "steps": settings["steps"] * count,
        "updates": rollouts * settings["epochs"] * settings["num_minibatches"] * count,
    }


def train_off_policy(algorithm: Any, settings: dict[str, Any], key: Any) -> tuple[Any, dict[str, Any]]:
    """Two programs: the steps before learning starts, untimed, and the rest, where every step has its update."""
    timed = settings["steps"] - settings["learning_starts"]
    filling = lasting(algorithm, settings["learning_starts"])
    learning = lasting(algorithm, timed)
    if settings["algorithm"] == "dqn":
        # epsilon falls over a share of total_timesteps, which is now only a part of the run
        falling = int(settings["exploration_fraction"] * settings["steps"])
        filling = filling.replace(exploration_fraction=falling / filling.total_timesteps)
        learning = learning.replace(exploration_fraction=falling / learning.total_timesteps)
    began = time.perf_counter()
    fill = jax.jit(lambda key: filling.train(key)[0]).lower(key).compile()
    filled = time.perf_counter()
    state = jax.block_until_ready(fill(key))
    resumed = time.perf_counter()
    learn = jax.jit(lambda state: learning.train(train_state=state)[0]).lower(state).compile()
    ready = time.perf_counter()
    state = jax.block_until_ready(learn(state))
    ended = time.perf_counter()
    return state, {
        "seconds_compile": filled - began + ready - resumed,
        "seconds_steady": ended - ready,
        "seconds_outside": 0.0,
        "steps": timed,
        "updates": timed // settings["num_envs"] * settings["updates_per_step"],
    }


def main() -> None:
    _, settings = common.arguments()
    if settings["simulator"] != "jax":
        raise SystemExit("rejax trains in gymnax's environments; give the contestant simulator='jax'.")
    if settings["num_seeds"] > 1 and settings["algorithm"] != "ppo":
        raise SystemExit("This script trains several seeds at once with PPO only.")
    algorithm = {"ppo": ppo, "sac": sac, "dqn": dqn}[settings["algorithm"]](settings)
    train = train_on_policy if settings["algorithm"] == "ppo" else train_off_policy
    key = jax.random.PRNGKey(settings["seed"])
    state, figures = train(lasting(algorithm, settings["steps"]), settings, key)

    began = time.perf_counter()
    count = settings["num_seeds"]
    states = [state] if count == 1 else [jax.tree.map(lambda x, i=i: x[i], state) for i in range(count)]
    final_return = []
    for state in states:
        _, returns = evaluate(
            algorithm.make_act(state),
            jax.random.PRNGKey(settings["seed"] + 10_000),
            algorithm.env,
            algorithm.env_params,
            settings["evaluation_episodes"],
            algorithm.env_params.max_steps_in_episode,
        )
        final_return.append(float(returns.mean()))
    figures["seconds_outside"] += time.perf_counter() - began
    common.report(
        seconds_import=SECONDS_IMPORT,
        total_steps=settings["steps"],
        final_return=final_return,
        packages=("rejax", "gymnax", "jax", "flax", "distrax"),
        **figures,
    )


if __name__ == "__main__":
    main()
