"""Looking beyond the named groups: subgroups that are off, and whether H is rich enough."""
