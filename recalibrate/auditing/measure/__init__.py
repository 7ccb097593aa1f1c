"""The numbers of an audit: gaps with their limits, by group, before and after."""
