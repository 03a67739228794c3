"""Actor-critic agents with recurrent networks."""
