"""Rewards: the learning signal from transitions."""

PARTS = {
    "environment": "environment:EnvironmentReward",
    "scale": "scaling:Scale",
    "data-scale": "scaling:DataScale",
    "atari": "atari:AtariRewards",
    "normalise-return": "scaling:NormaliseReturn",
    "weighted": "weighted:WeightedRewards",
    "rnd": "bonuses.rnd:RND",
    "icm": "bonuses.icm:ICM",
    "gail": "adversarial.gail:GAIL",
    "airl": "adversarial.airl:AIRL",
    "format": "verifiers.form:Format",
    "scorer": "verifiers.scorer:Scorer",
}
"""By name: the module below this folder, and the class."""
