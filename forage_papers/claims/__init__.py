"""Claims of papers: a file of rows for each theme, and a module of the same name with the functions that they need."""
