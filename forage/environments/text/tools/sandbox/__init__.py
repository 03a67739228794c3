"""A sandbox for Python programs: its guard, its layers of confinement, and the attempts it was tested against."""
