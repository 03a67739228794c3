"""The surroundings of the language policy's network: its sizes, its files, its adapters, and its sampling."""
