"""A sandbox for Python programs: who guards, what is confined, and what it was tried against."""
