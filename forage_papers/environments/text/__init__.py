"""Games in text of single papers, each played as `text:forage_papers.environments.text.MODULE:Class`."""
