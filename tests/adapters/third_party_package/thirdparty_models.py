"""A framework that recalibrate knows nothing of."""


class Stump:
    """Says one probability below a threshold of a column and another one above."""

    def __init__(self, column, threshold, below, above):
        self.column, self.threshold = column, threshold
        self.below, self.above = below, above

    def predict(self, frame):
        return [self.below if x <= self.threshold else self.above for x in frame[self.column]]
