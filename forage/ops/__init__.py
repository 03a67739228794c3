"""Operators: pure functions of arrays, each with its formula and its source."""
