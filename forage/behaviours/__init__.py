"""Behaviours: how is an action chosen while learning?"""

PARTS = {
    "own": "own:Own",
    "epsilon-greedy": "epsilon_greedy:EpsilonGreedy",
    "boltzmann": "boltzmann:Boltzmann",
    "ez-greedy": "ez_greedy:EZGreedy",
    "pink": "pink:Pink",
    "ornstein-uhlenbeck": "ornstein_uhlenbeck:OrnsteinUhlenbeck",
    "held-noise": "held_noise:HeldNoise",
    "parameter-noise": "parameter_noise:ParameterNoise",
    "data-guided": "data_guided:DataGuided",
    "guide": "guide:Guide",
    "raps": "raps:RAPS",
    "lesson": "lesson:Lesson",
    "dagger": "dagger:DAgger",
    "self-play": "self_play:SelfPlay",
    "greedy-first": "greedy_first:GreedyFirst",
    "first-policy": "first_policy:FirstPolicy",
    "worked": "worked:Worked",
    "takeover": "takeover:Takeover",
    "annealed-decoding": "annealed_decoding:AnnealedDecoding",
    "adaptive-temperature": "adaptive_temperature:AdaptiveTemperature",
    "endpoint": "endpoint:Endpoint",
}
"""By name: the module below this folder, and the class."""
