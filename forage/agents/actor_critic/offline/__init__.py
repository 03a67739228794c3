"""Actor-critic agents for data sets."""
