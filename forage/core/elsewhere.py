"""Names of other libraries, for the hint after a name that is unknown: options that Forage calls otherwise, and
methods that it has under another name or not at all."""

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
    ("devices",): ("device", "num_devices"),
    ("mesh",): ("fsdp", "tensor_parallel_size", "tp_size", "sharding", "mesh_shape"),
    ("wrap",): ("wrapper", "wrappers", "wrapper_class"),
    ("environment",): ("env", "env_id", "env_name", "gym_id"),
    ("environment_options",): ("env_kwargs", "env_options", "env_config"),
    ("agent",): ("algo", "algorithm", "policy", "model"),
}  # fmt: skip

ELSEWHERE = {theirs: ours for ours, names in NAMES.items() for theirs in names}
"""Forage's name for each name of another library."""


def ours(word: str, known: dict[str, str]) -> list[str]:
    """Return the known names in Forage for `word` of another library. `known`: spellings by their names with `_`."""
    return [known[name] for name in ELSEWHERE.get(word.replace("-", "_").lower(), ()) if name in known]


HERE_AS: dict[str, tuple[str, ...]] = {
    # what to write, and names of the same method elsewhere
    "ppo with --gru-size 64": ("recurrent_ppo", "ppo_gru", "ppo_recurrent", "rppo"),
    "ppo with --gru-size 64 --cell lstm": ("ppo_lstm", "lstm_ppo"),
    "ppo, which obeys masks of actions by itself": ("maskable_ppo", "ppo_mask", "masked_ppo"),
    "ppo, whose agents of a team share one policy": ("ippo", "independent_ppo"),
    "dqn with --dueling true --memory prioritised": ("d3qn", "dueling_dqn", "dueling_double_dqn"),
    "dqn, whose target is that of double Q-learning unless --double false": ("ddqn", "double_dqn"),
    "reinforce": ("vpg", "policy_gradient", "pg"),
    "a2c": ("a3c",),
    "trpo with --line-search-steps 0": ("npg", "natural_pg"),
    "rainbow": ("rainbow_dqn", "der"),
    "dqn with --noisy true --behaviour policy": ("noisy_dqn", "noisynet", "noisy_nets"),
    "bc": ("behavior_cloning", "behaviour_cloning", "behavioral_cloning"),
    "decision-transformer": ("dt",),
    "ppo with --rewards gail": ("gail",),
    "ppo with --rewards airl": ("airl",),
    "ppo with --rewards rnd": ("rnd", "rnd_ppo", "ppo_rnd"),
    "ppo with --rewards icm": ("icm", "icm_ppo", "ppo_icm"),
    "dqn, sac or td3 with --memory hindsight": ("her",),
    "dqn, sac or td3 with --memory prioritised": ("per",),
    "open-es": ("es", "evolution_strategies", "openai_es"),
    "forage tune --method pbt": ("pbt",),
    "sac-discrete": ("sacd", "discrete_sac"),
    "discrete-bcq": ("bcq",),
    "gumbel-search": ("gumbel_alphazero", "gumbel_muzero"),
}
"""Forage's command for methods that have names of their own in other libraries."""

METHODS: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    # what it is, its names, what it learns by, and the agents here that are nearest in kind
    "ACER": (("acer",), "an actor-critic that corrects old experience", ("impala", "appo")),
    "ACKTR": (("acktr",), "a natural-gradient actor-critic", ("trpo", "a2c")),
    "V-MPO": (("vmpo", "v_mpo"), "an on-policy actor-critic by weighted likelihood", ("ppo", "impala")),
    "MPO": (("mpo", "dmpo"), "an off-policy actor-critic by weighted likelihood", ("sac", "td3")),
    "D4PG": (("d4pg",), "a deterministic policy with values in bins", ("td3", "ddpg")),
    "SQL": (("sql", "soft_q_learning"), "soft Q-learning", ("sac", "sac-discrete")),
    "NAF": (("naf",), "Q-learning with continuous actions", ("ddpg", "td3")),
    "SUNRISE": (("sunrise",), "an ensemble of actor-critics", ("redq", "sac")),
    "BBF": (("bbf", "spr", "sr_spr"), "DQN that learns much from few steps", ("rainbow", "c51")),
    "FQF": (("fqf",), "DQN with a distribution of values", ("iqn", "qr-dqn")),
    "Munchausen DQN": (("mdqn", "m_dqn", "munchausen_dqn"), "DQN with an entropy bonus", ("dqn", "sac-discrete")),
    "R2D2": (("r2d2", "ngu", "agent57", "apex", "apex_dqn", "ape_x", "drqn"), "replayed values of many actors",
             ("dqn", "pqn")),
    "DrQ": (("drq", "drqv2", "drq_v2", "curl", "rad"), "an actor-critic on shifted images", ("sac", "td3")),
    "Dreamer": (("dreamer", "dreamerv1", "dreamerv2", "dreamerv3", "dreamer_v1", "dreamer_v2", "dreamer_v3", "planet"),
                "an actor-critic in a world model that it learns", ("sac", "ppo")),
    "TD-MPC": (("tdmpc", "tdmpc2", "td_mpc", "td_mpc2"), "planning in a model that it learns", ("sac", "td3")),
    "MBPO": (("mbpo", "pets", "steve", "simple"), "learning from a model's steps", ("redq", "sac")),
    "MuZero": (("muzero", "efficientzero", "sampled_muzero", "alphazero", "alpha_zero"),
               "search in a tree, with learned values", ("gumbel-search",)),
    "MAPPO": (("mappo", "coma", "matd3", "masac"), "learning of whole teams",
              ("qmix", "ppo")),
    "AWAC": (("awac", "awr", "crr", "marwil"), "weighted cloning of recorded actions", ("iql", "bc")),
    "BEAR": (("bear", "plas", "brac"), "a policy kept near recorded actions", ("td3-bc", "cql")),
    "XQL": (("xql", "x_ql", "sql_offline", "eql"), "values within the data's actions", ("iql", "cql")),
    "Diffusion-QL": (("diffusion_ql", "dql", "idql", "qgpo"), "a diffusion policy for recorded actions",
                     ("iql", "td3-bc")),
    "MOPO": (("mopo", "combo", "morel", "mobile", "rambo"), "offline learning in a learned model", ("cql", "iql")),
    "CMA-ES": (("cma_es", "cmaes", "neat", "ga"), "search without gradients", ("open-es",)),
    "DIAYN": (("diayn", "dads", "smerl", "vic"), "skills without a reward", ("sac", "ppo")),
}  # fmt: skip
"""Methods that other libraries have and Forage does not."""


def method_elsewhere(name: str) -> str | None:
    """Describe Forage's replacement for a method of other libraries; None if the name is not one of them.

    It is the end of a sentence that begins with the unknown name.
    """
    word = name.lower().replace("-", "_")
    for here, names in HERE_AS.items():
        if word in names:
            return f": here it is {here}."
    for title, (names, kind, near) in METHODS.items():
        if word in names:
            shown = name if len(names) > 1 else title
            nearest = " and ".join(repr(one) for one in near)
            return f": {shown} ({kind}) is not here; nearest in kind {'is' if len(near) == 1 else 'are'} {nearest}."
    return None


DEVICE = "JAX takes the GPU or TPU that it finds; JAX_PLATFORMS=cpu before the command keeps it on the processor."
FILM = "training shows nothing of its episodes; forage watch RUN films what it has learned, also while it trains."
ABSENT_OPTIONS: dict[str, str] = {
    **dict.fromkeys(("gpu", "cuda", "cpu", "use_gpu", "use_cuda"), DEVICE),
    **dict.fromkeys(("render", "render_mode", "visualize", "visualise", "capture_video", "video"), FILM),
}
"""Options of other libraries that no command of Forage has, with how it is done here."""
ABSENT_IN_TRAINING = ABSENT_OPTIONS | dict.fromkeys(("gpus", "accelerator"), DEVICE)
"""Options of other libraries that training does not have; `forage plan` has `--gpus`."""
