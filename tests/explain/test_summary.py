"""The summary as text, and as notebooks show it."""

import numpy as np

import recalibrate as rc


def test_summary_shows_itself_as_lines_and_as_a_table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(999, 1))
    model = rc.fit(np.full(999, 0.3), X, rng.random(999) < 0.3, H=rc.Linear())
    summary = model.summary()
    assert isinstance(summary, str)
    assert repr(summary) == str(summary)
    assert "\n" in repr(summary)
    page = summary._repr_html_()
    assert model._repr_html_() == page
    assert "<strong>Recalibrated model on array of scores, binary labels</strong>" in page
    assert page.count("<tr>") == len(summary.splitlines()) - 1
    assert ">rounds</th>" in page


def test_names_of_users_are_text_in_notebooks():
    rng = np.random.default_rng(0)

    def scores(X):
        return np.full(len(X), 0.3)

    scores.__name__ = "<script>"
    model = rc.fit(scores, rng.normal(size=(400, 1)), rng.random(400) < 0.3)
    assert "<script>" not in model._repr_html_()
