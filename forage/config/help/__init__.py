"""Help on parts and environments, from their source and fields."""
