"""default."""
