"""Behaviours: rules for choosing actions during learning."""

PARTS = {
    "own": "own:Own",
    "epsilon-greedy": "epsilon_greedy:EpsilonGreedy",
    "boltzmann": "boltzmann:Boltzmann",
    "ornstein-uhlenbeck": "ornstein_uhlenbeck:OrnsteinUhlenbeck",
    "parameter-noise": "parameter_noise:ParameterNoise",
    "guide": "guide:Guide",
    "dagger": "dagger:DAgger",
    "self-play": "self_play:SelfPlay",
    "greedy-first": "greedy_first:GreedyFirst",
    "takeover": "takeover:Takeover",
    "endpoint": "endpoint:Endpoint",
    "first-policy": "first_policy:FirstPolicy",
    "worked": "worked:Worked",
    "held-noise": "held_noise:HeldNoise",
}
"""By name: the module below this folder, and the class."""
