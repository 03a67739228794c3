"""Behaviours: rules for choosing actions during learning."""

PARTS = {
    "policy": "policy:AgentPolicy",
    "epsilon-greedy": "epsilon_greedy:EpsilonGreedy",
    "ornstein-uhlenbeck": "ornstein_uhlenbeck:OrnsteinUhlenbeck",
    "self-play": "self_play:SelfPlay",
    "endpoint": "endpoint:Endpoint",
    "expert-text": "expert_text:ExpertText",
    "held-noise": "held_noise:HeldNoise",
}
"""By name: the module below this folder, and the class."""
