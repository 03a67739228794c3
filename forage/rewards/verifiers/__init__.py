"""Rewards of text answers, from a verifier's verdict and from the answer's form."""
