"""polars in, polars out: fit, predict and audit on frames that are not pandas'.

pip install polars; python examples/polars_table.py
"""

import polars as pl
from sklearn.linear_model import LogisticRegression

import recalibrate as rc
from recalibrate.simulate import census

train, calibration, test = (census(8000, seed=seed, categorical=True) for seed in (1, 2, 3))
seen = ["AGEP", "SCHL", "WKHP"]
base = LogisticRegression(max_iter=1000).fit(train.X[seen], train.y)

rows, new = pl.from_pandas(calibration.X), pl.from_pandas(test.X)
model = rc.fit(base, rows.lazy(), calibration.y, H=["SEX", "SEX*MAR"])
scored = new.with_columns(pl.Series("probability", model.predict(new)))
print(scored.select("AGEP", "SEX", "MAR", "probability").head(3))

report = rc.audit(model, new, test.y, groups=["SEX", "MAR"], baseline=True)
print(report.verdict)
