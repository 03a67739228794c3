"""A sandbox for Python programs: its guard and its layers of confinement."""
