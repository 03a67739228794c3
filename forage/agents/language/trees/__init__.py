"""Agents that learn from answers begun anew within others: rollouts that are trees."""
