"""Rewards: what counts as good?"""

PARTS = {
    "environment": "environment:EnvironmentReward",
    "scale": "scaling:Scale",
    "atari": "atari:AtariRewards",
    "normalise-return": "scaling:NormaliseReturn",
    "weighted": "weighted:Weighted",
    "rnd": "bonuses.rnd:RND",
    "counts": "bonuses.counts:Counts",
    "icm": "bonuses.icm:ICM",
    "disagreement": "bonuses.disagreement:Disagreement",
    "e3b": "bonuses.e3b:E3B",
    "episodic-novelty": "bonuses.episodic_novelty:EpisodicNovelty",
    "re3": "bonuses.re3:RE3",
    "shift": "shift:Shift",
    "tracking": "tracking:Tracking",
    "gail": "adversarial.gail:GAIL",
    "airl": "adversarial.airl:AIRL",
    "format": "verifiers.form:Format",
    "shorter": "verifiers.shorter:Shorter",
    "diversity": "verifiers.diversity:Diversity",
    "text-curiosity": "verifiers.perplexity:TextCuriosity",
    "representation": "verifiers.representation:Representation",
    "progress": "verifiers.progress:Progress",
    "search-stages": "verifiers.search_stages:SearchStages",
}
"""By name: the module below this folder, and the class."""
