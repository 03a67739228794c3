"""The loop for environments in Python or C++, for one seed and for many."""
