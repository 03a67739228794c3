"""One file per claim; its name is the file's, with dashes."""
