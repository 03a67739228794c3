"""Estimators of a policy's return from another policy's data."""
