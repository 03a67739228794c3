"""Names that other libraries give to what Forage calls otherwise, for the hint after a name that is unknown."""

from __future__ import annotations

NAMES: dict[tuple[str, ...], tuple[str, ...]] = {
    # ours, as far as who is asked has them: those of other libraries
    ("learning_rate",): ("lr", "step_size", "policy_lr", "q_lr", "actor_lr", "critic_lr", "learning_rates"),
    ("discount",): ("gamma", "discount_factor", "discounting"),
    ("gae_lambda", "trace_lambda"): ("lam", "lambda", "lambd", "lambda_", "gae_lam"),
    ("rollout_length", "n_step"): ("n_steps", "num_steps"),
    ("rollout_length",): ("train_freq", "rollout_steps", "unroll_length", "rollout_fragment_length", "horizon"),
    ("updates_per_rollout",): ("gradient_steps", "utd_ratio", "grad_updates_per_step", "updates_per_step"),
    ("epochs",): ("n_epochs", "num_epochs", "update_epochs", "num_sgd_iter", "noptepochs", "num_updates_per_batch"),
    ("minibatches",): ("num_minibatches", "n_minibatches", "nminibatches", "num_mini_batches"),
    ("minibatch_size", "minibatches"): ("batch_size", "mini_batch_size", "sgd_minibatch_size"),
    ("clip",): ("clip_range", "clip_coef", "clip_param", "clip_eps", "clip_epsilon", "clip_ratio", "eps_clip"),
    ("clip_value",): ("clip_range_vf", "clip_vloss", "vf_clip_param", "clip_value_loss"),
    ("entropy_coefficient", "initial_temperature"): (
        "ent_coef", "ent_coeff", "entropy_coef", "entropy_coeff", "entropy_cost", "alpha",
    ),
    ("value_coefficient",): ("vf_coef", "vf_coeff", "value_coef", "value_coeff", "vf_loss_coeff", "value_loss_coef"),
    ("max_gradient_norm",): ("max_grad_norm", "grad_clip", "gradient_clip", "clip_grad_norm"),
    ("normalise_advantage",): ("normalize_advantage", "norm_adv", "normalize_advantages"),
    ("normalise_observation",): ("normalize_observation", "normalize_observations", "norm_obs", "normalize"),
    ("polyak", "target_rate"): ("tau",),
    ("learning_starts",): ("start_steps", "warmup_steps", "num_warmup_steps", "min_replay_size", "update_after"),
    ("target_update_interval",): ("target_network_frequency", "target_update_freq", "target_update_frequency"),
    ("policy_delay",): ("policy_frequency", "policy_freq"),
    ("capacity", "memory.capacity", "memory"): (
        "buffer_size", "replay_size", "replay_buffer_size", "buffer_capacity", "max_replay_size",
    ),
    ("memory",): ("replay_buffer", "replay_buffer_class", "buffer"),
    ("hidden_sizes",): ("net_arch", "hidden_dims", "hidden_size", "hidden_layers", "fcnet_hiddens", "policy_kwargs"),
    ("activation",): ("activation_fn", "activation_function", "nonlinearity"),
    ("optimiser",): ("optimizer", "optimizer_class"),
    ("behaviour",): ("epsilon", "exploration_fraction", "exploration_final_eps", "action_noise", "use_sde"),
    # a run
    ("steps",): (
        "total_timesteps", "timesteps", "num_timesteps", "n_timesteps", "total_steps", "max_steps", "num_env_steps",
        "total_env_steps", "training_steps",
    ),
    ("trials",): ("n_trials", "num_trials", "num_samples"),
    ("num_envs",): ("n_envs", "nenvs", "num_workers", "num_environments", "n_env", "num_actors"),
    ("seeds",): ("seed", "n_seeds", "num_seeds", "random_seed"),
    ("display", "quiet", "plain"): ("verbose", "verbosity", "progress_bar", "progress", "silent", "log_interval"),
    ("track",): ("tensorboard_log", "tensorboard", "wandb", "use_wandb", "logger", "report_to", "tracker", "trackers"),
    ("evaluation_every",): ("eval_freq", "eval_interval", "eval_every", "evaluation_interval"),
    ("evaluation_episodes",): ("n_eval_episodes", "eval_episodes", "num_eval_episodes", "num_eval_envs"),
    ("evaluation_actions",): ("deterministic", "deterministic_eval"),
    ("directory",): (
        "log_dir", "logdir", "save_path", "save_dir", "output_dir", "exp_name", "run_name", "log_path", "output", "out",
    ),
    ("checkpoint_seconds",): ("save_freq", "save_interval", "checkpoint_freq", "checkpoint_interval"),
    ("devices",): ("device", "num_devices", "gpus", "cuda"),
    ("wrap",): ("wrapper", "wrappers", "wrapper_class"),
    ("environment",): ("env", "env_id", "env_name", "gym_id"),
    ("environment_options",): ("env_kwargs", "env_options", "env_config"),
    ("agent",): ("algo", "algorithm", "policy", "model"),
}  # fmt: skip

ELSEWHERE = {theirs: ours for ours, names in NAMES.items() for theirs in names}
"""Ours for each of theirs."""


def ours(word: str, known: dict[str, str]) -> list[str]:
    """Return what is called `word` elsewhere, of what is known: spellings by their names with `_`."""
    return [known[name] for name in ELSEWHERE.get(word.replace("-", "_").lower(), ()) if name in known]
