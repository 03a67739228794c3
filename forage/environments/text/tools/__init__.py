"""Tools that a text policy calls, and what reads its calls."""
