"""Rewards of answers in text: what is made of a verifier's verdict, and of how an answer was written."""
