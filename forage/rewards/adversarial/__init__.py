"""Rewards of a discriminator between demonstrations and the agent's own transitions."""
