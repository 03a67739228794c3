"""Data: transitions that somebody else collected."""
