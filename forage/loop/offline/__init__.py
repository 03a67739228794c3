"""The loop that learns from a data set, without environment steps."""
