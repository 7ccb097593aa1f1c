"""What fewer folds cost: expected loss and time of default fits with some of five folds.

    python benchmarks/folds.py --rows 100000,300000 --seeds 3

The truth of the simulated census is known, so that the loss has no noise of test labels. Printed
are the rise over the loss with all five folds, in per cent, beside what
`recalibrate.fitting.run.HELD_OUT_SCALE` rests on, 2200 (1 / m - 1 / n) for m held-out rows of n,
and processor seconds.
"""

import argparse
import time
import warnings
from unittest import mock

import numpy as np

import recalibrate as rc
from recalibrate.simulate import census

COUNTS = (5, 3, 2, 1)


def expected_loss(truth, predictions):
    """Mean log loss over all labels that the truth may give."""
    p = np.clip(predictions, 1e-9, 1 - 1e-9)
    return -np.mean(truth * np.log(p) + (1 - truth) * np.log(1 - p))


def measure(rows, seed, count, new):
    data = census(rows, seed=seed, categorical=True)
    with mock.patch("recalibrate.fitting.run.enough_folds", return_value=count):
        begun = time.process_time()
        model = rc.fit(data.scores, data.X, data.y)
        seconds = time.process_time() - begun
    return expected_loss(new.probability, model.predict(new.X, base=new.scores)), seconds


def main():
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--rows", default="100000")
    made.add_argument("--seeds", type=int, default=3)
    arguments = made.parse_args()
    warnings.simplefilter("ignore")
    new = census(200_000, seed=10**6, categorical=True)
    for rows in map(int, arguments.rows.split(",")):
        for seed in range(arguments.seeds):
            found = [measure(rows, seed, count, new) for count in COUNTS]
            for count, (loss, seconds) in zip(COUNTS, found, strict=True):
                rise = 100 * (loss / found[0][0] - 1)
                said = 2200 * (5 / (count * rows) - 1 / rows)
                name = f"{rows:,} rows, seed {seed}, {count} folds"
                print(f"{name}: {rise:+.3f} % ({said:.3f} %), {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
