"""Agents between offline and online: what was learned or recorded before, and steps of one's own."""
