"""Tasks: which environment, level or context comes next?"""
