"""What a model says about itself: why a row got its score, summaries, error curves.

Comes in: a fitted model. Leaves: words, tables, figures. Called by methods of `Recalibrated`.
"""
