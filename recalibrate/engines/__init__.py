"""Where rows live. An engine evaluates questions on its parts; answers are summed."""
