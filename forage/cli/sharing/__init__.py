"""Commands that take policies and runs out of Forage, and into it."""
