"""Core: the vocabulary of all other parts of the library. Imports no other part of Forage."""
