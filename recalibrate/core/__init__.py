"""LSBoost itself: level sets, rounds, the loop, exact sums, the certificate.

Comes in: a source of statistics and a learner for H. Leaves: `Rounds`, the fitted model.
Knows neither where rows are kept nor which class H is.
"""
