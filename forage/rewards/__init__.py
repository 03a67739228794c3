"""Rewards: what counts as good?"""
