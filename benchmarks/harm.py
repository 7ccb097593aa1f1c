"""Do no harm, and act when it is called for: simulations in which the truth is known.

    python benchmarks/harm.py calibrated --rows 200 --seeds 60
    python benchmarks/harm.py planted --rows 20000 --seeds 40
    python benchmarks/harm.py small-groups --rows 4000 --seeds 40

`calibrated`: the base is the truth, so every change is harm; printed as a share of the Brier
score of the truth. `planted`: one group of 5 % of the rows has a gap of .1; printed is how much
of it is left on new rows. `small-groups`: H=Groups on a column with groups of 20 to 90 rows, the
base is the truth; printed is how far the groups are moved, in standard errors of their own means
(a group that follows its noise in full is moved by 1 on average squared).
"""

import argparse
import warnings

import numpy as np
import pandas as pd

import recalibrate as rc

GROUPS = list("abcdefgh")
SHARES = [0.3, 0.2, 0.15, 0.12, 0.1, 0.06, 0.05, 0.02]
PLANTED = "g"


def people(rng, n):
    """Features and true probabilities."""
    X = pd.DataFrame({f"x{j}": rng.normal(size=n).astype(np.float32) for j in range(4)})
    X["group"] = rng.choice(GROUPS, n, p=SHARES)
    X["sex"] = rng.choice(["f", "m"], n)
    truth = 1 / (1 + np.exp(-(0.9 * X["x0"] + 0.5 * X["x1"] - 0.8)))
    return X, truth.to_numpy()


def read_class(name):
    return {"default": None, "groups": rc.Groups("group", "sex", "group*sex"), "linear": "linear"}[
        name
    ]


def calibrated(rows, seeds, H):
    harm, changed = [], 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        X, truth = people(rng, rows)
        new, new_truth = people(np.random.default_rng(10**6 + seed), 20_000)
        model = rc.fit(truth, X, rng.random(rows) < truth, H=H)
        after = model.predict(new, base=new_truth)
        # The expected Brier score rises by the mean squared distance from the truth.
        harm.append(np.mean((after - new_truth) ** 2) / np.mean(new_truth * (1 - new_truth)))
        changed += bool(model.rounds.steps)
    print(
        f"{rows:,} rows, {seeds} seeds: mean harm {100 * np.mean(harm):.4f} % of the Brier score "
        f"(largest {100 * np.max(harm):.3f} %), base changed in {changed} of {seeds}"
    )


def planted(rows, seeds, H, gap=0.1):
    left = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        X, base = people(rng, rows)
        new, new_base = people(np.random.default_rng(10**6 + seed), 100_000)
        truth = np.clip(base + gap * (X["group"] == PLANTED).to_numpy(), 0, 1)
        inside = (new["group"] == PLANTED).to_numpy()
        model = rc.fit(base, X, rng.random(rows) < truth, H=H)
        after = model.predict(new, base=new_base)
        wanted = np.clip(new_base + gap, 0, 1)[inside]
        left.append(np.mean(wanted - after[inside]) / np.mean(wanted - new_base[inside]))
    shrunk = np.mean(np.abs(left) <= 0.3)
    print(
        f"{rows:,} rows, {seeds} seeds: {np.mean(left):+.3f} of the gap is left on average; it "
        f"shrinks by at least 70 % in {100 * shrunk:.1f} % of the seeds"
    )


def small_groups(rows, seeds, _):
    moved = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        X, truth = people(rng, rows)
        sizes = rng.integers(20, 91, size=200)
        labels = np.repeat(np.arange(200), sizes)[:rows]
        small = np.full(rows, "everyone else", dtype=object)
        small[: len(labels) // 2] = [f"club {k}" for k in labels[: len(labels) // 2]]
        X["club"] = small
        model = rc.fit(truth, X, rng.random(rows) < truth, H=rc.Groups("club", min_rows=20))
        shift = model.predict(X, base=truth) - truth
        for club in set(small) - {"everyone else"}:
            rows_in = small == club
            error = np.sqrt(np.sum((truth * (1 - truth))[rows_in])) / np.sum(rows_in)
            moved.append(np.mean(shift[rows_in]) / error)
    print(
        f"{rows:,} rows, {seeds} seeds, {len(moved) // seeds} small groups each: moved by "
        f"{np.sqrt(np.mean(np.square(moved))):.3f} standard errors (root mean square), "
        f"largest {np.max(np.abs(moved)):.2f}"
    )


def main():
    about = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=about)
    parser.add_argument("what", choices=["calibrated", "planted", "small-groups"])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--H", choices=["default", "groups", "linear"], default="default")
    args = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    run = {"calibrated": calibrated, "planted": planted, "small-groups": small_groups}[args.what]
    run(args.rows, args.seeds, read_class(args.H))


if __name__ == "__main__":
    main()
