"""Rewards of a discriminator that tells demonstrations from what the agent does."""
