"""Agents: what learns?"""

PARTS = {
    "ppo": "policy_gradient.ppo:PPO",
    "reinforce": "policy_gradient.reinforce:Reinforce",
    "ppo-lagrangian": "policy_gradient.ppo_lagrangian:PPOLagrangian",
    "impala": "policy_gradient.impala:IMPALA",
    "dqn": "q_learning.dqn:DQN",
    "vdn": "q_learning.vdn:VDN",
    "sac": "actor_critic.sac:SAC",
    "sac-discrete": "actor_critic.sac_discrete:SACDiscrete",
    "td3": "actor_critic.td3:TD3",
    "q-learning": "tabular.q_learning:QLearning",
    "ucbvi": "tabular.ucbvi:UCBVI",
    "psrl": "tabular.psrl:PSRL",
    "maxent": "tabular.maxent:MaxEnt",
    "bootstrapped-dqn": "q_learning.bootstrapped_dqn:BootstrappedDQN",
    "langevin-dqn": "q_learning.langevin_dqn:LangevinDQN",
    "mex": "actor_critic.mex:MEX",
    "rrs": "actor_critic.rrs:RRS",
    "maxinfo-sac": "actor_critic.maxinfo_sac:MaxInfoSAC",
    "sqirl": "q_learning.sqirl:SQIRL",
    "bc": "offline.bc:BC",
    "iql": "offline.iql:IQL",
    "open-es": "evolution.open_es:OpenES",
    "gumbel-search": "search.gumbel_search:GumbelSearch",
}
"""By name: the module below this folder, and the class."""
