"""Agents between offline and online: they start from data or an offline run and collect steps of their own."""
