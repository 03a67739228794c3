"""Agents that branch answers from within other answers: rollouts that are trees."""
