"""Core: what every other part of the library speaks. Imports nothing else of ours."""
