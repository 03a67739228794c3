"""Agents whose policy is a flow: from noise to an action in several steps."""
