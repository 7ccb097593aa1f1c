"""bases."""
