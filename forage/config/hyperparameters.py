"""Meanings of the hyper-parameters that many parts share, by name. A comment behind a part's own field goes before."""

MEANINGS = {
    # collecting
    "num_envs": "environments stepped side by side; more give each update more varied data",
    "rollout_length": "steps of each environment between two updates; more make larger and fewer updates",
    "updates_per_rollout": "updates after each rollout; more learn more from each step, at more computing",
    "learning_starts": "environment steps before the first update; more begin with more varied data",
    # learning
    "optimiser": "one of Optax by its name, such as adamw, sgd or lion, or module:function of the learning rate",
    "learning_rate": "step size of the optimiser; larger learns faster, and diverges sooner",
    "discount": "worth of a reward one step later; nearer 1 looks further ahead",
    "batch_size": "transitions, or sequences of them, in each update; more make steadier gradients, at more computing",
    "minibatch_size": "transitions in each gradient step; more make steadier and fewer steps",
    "minibatches": "equal parts that a rollout is cut into, each for a gradient step; more make more, noisier steps",
    "epochs": "passes over each rollout; more learn more from it, and fit it more closely",
    "max_gradient_norm": "longer gradients are cut to this length; smaller makes more cautious steps",
    "n_step": "rewards summed before a value is taken; more carry rewards back faster, with more noise",
    "double": "the network chooses the action that the target network values (double Q-learning), which overrates less",
    "dueling": "the network adds a state's value and each action's advantage, in streams of their own",
    # on-policy learning
    "gae_lambda": "decay of the weights of longer returns in advantages; nearer 1 has less bias and more variance",
    "clip": "how far a new policy's probability ratio is followed away from 1; larger allows larger policy steps",
    "clip_value": "values move by at most `clip` in an update, too",
    "entropy_coefficient": "weight of the policy's entropy in the loss; larger explores more",
    "value_coefficient": "weight of the value's loss beside the policy's; larger gives values more of the gradient",
    "normalise_advantage": "advantages of each minibatch are brought to mean 0 and deviation 1",
    "normalise_observation": "observations are brought to mean 0 and deviation 1, by those seen so far",
    # networks
    "hidden_sizes": "units of each hidden layer, for observations that are no images",
    "value_sizes": "units of each hidden layer of the value's own network; none: hidden_sizes",
    "activation": "function between layers: one of jax.nn by its name, or module:function",
    "layer_norm": "hidden layers are normalised before their activation; steadier where values grow",
    "encoder": "class of one's own that turns an observation into features, before the hidden layers: file.py:Class",
    "embedding_size": "numbers that an observation is turned into; more keep more of it, at more computing",
    # temperatures
    "initial_temperature": "weight of the policy's entropy at first; larger explores more",
    # rewards
    "inner": "the rewards within, which this part begins from",
    "weight": "weight of the bonus beside the reward; larger explores more",
}
