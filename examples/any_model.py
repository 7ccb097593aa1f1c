"""A model that no adapter knows: a function of X, or just its scores. Then one not yet trained.

    python examples/any_model.py

The census is simulated; the model's scores of women are too low by 0.1.
"""

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import recalibrate as rc
from recalibrate.simulate import base_scores, census

GROUPS = rc.Groups("SEX == 2", "AGEP < 25", "SEX == 2 and AGEP < 25")


def score(X):
    """Any code that gives one probability per row: a scoring service, SQL, a rule."""
    return base_scores(X, gap=0.1)


def show(title: str, predictions: np.ndarray, test) -> None:
    women = (test.X["SEX"] == 2).to_numpy()
    gap = test.y[women].mean() - predictions[women].mean()
    loss = np.mean((test.y - predictions) ** 2)
    print(f"{title:<44} {gap:>+10.3f} {loss:>14.4f}")


def main() -> None:
    calibration, test = census(10_000, seed=2), census(10_000, seed=3)
    print(f"{'10,000 new rows':<44} {'gap, women':>10} {'squared error':>14}")
    show("the model itself", score(test.X), test)

    model = rc.fit(score, calibration.X, calibration.y, H=GROUPS)
    show("recalibrated, given as a function", model.predict(test.X), test)

    # The scores alone: new rows then need theirs.
    model = rc.fit(score(calibration.X), calibration.X, calibration.y, H=GROUPS)
    show("given as scores", model.predict(test.X, base=score(test.X)), test)

    # A year later: more labels, further rounds on top of the model.
    further = census(10_000, seed=4)
    model = rc.fit(score, calibration.X, calibration.y, H=GROUPS)
    model = rc.fit(model, further.X, further.y, H=rc.Trees(depth=2))
    show("with rounds appended on further labels", model.predict(test.X), test)

    # No model yet: every row is scored by a copy that was trained on the other folds.
    columns = make_column_transformer((StandardScaler(), ["AGEP", "SCHL", "WKHP"]))
    untrained = make_pipeline(columns, LogisticRegression())
    model = rc.fit(untrained, calibration.X, calibration.y, H=GROUPS, cv=5)
    show("a logistic regression, trained on the way", model.predict(test.X), test)


if __name__ == "__main__":
    main()
