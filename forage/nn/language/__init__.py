"""What surrounds the language policy's network: its sizes, its files, its adapters, and what it writes."""
