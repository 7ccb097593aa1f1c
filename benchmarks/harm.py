"""Do no harm, and act when it is called for: simulations in which the truth is known.

    python benchmarks/harm.py calibrated --rows 1000 --seeds 400
    python benchmarks/harm.py calibrated --rows 1000 --seeds 400 --kind rare
    python benchmarks/harm.py calibrated --rows 1000 --seeds 60 --kind certain
    python benchmarks/harm.py planted --rows 20000 --seeds 40
    python benchmarks/harm.py planted --rows 3000 --seeds 6 --kind certain
    python benchmarks/harm.py small-groups --rows 4000 --seeds 40

`calibrated`: the base is the truth, so every change is harm; printed is the mean rise of the
expected loss on new rows (log loss, or squared error), in per cent of that of the truth, with its
standard error over seeds, and how many fits each stage changed. Kinds: `events` (a third of the
labels are 1), `rare` (5 % of them), `regression` (equal noise) and `unequal` (noise in proportion
to the mean), each with four numeric columns and two of groups; `classes` (four of them) and
`certain` (ten, and a base that is right about 98.6 % of the rows), with six numeric columns and two
more. `planted`: one group of 5 % of the rows has a gap of .1; printed is how much of it is left on
new rows. With several classes the base is right but for one column that it does not see; printed is
the change of the expected loss beside that by LightGBM as in ``multiclass.py`` (needed for it).
`small-groups`: H=Groups on a column with groups of 20 to 90 rows, the base is the truth; printed is
how far the groups are moved, in standard errors of their own means (a group that follows its noise
in full is moved by 1 on average squared).
"""

import argparse
import warnings
from collections import Counter

import numpy as np
import pandas as pd
from multiclass import Case, fit_lgbmcv

import recalibrate as rc
from recalibrate.core.levels import softmax

GROUPS = list("abcdefgh")
SHARES = [0.3, 0.2, 0.15, 0.12, 0.1, 0.06, 0.05, 0.02]
PLANTED = "g"
KINDS = ("events", "rare", "regression", "unequal", "classes", "certain")
SEVERAL = {"classes": (4, 3.0), "certain": (10, 150.0)}
"""Number of classes, and how far apart their log-odds are."""
UNSEEN = 1.6
"""Standard deviation of the shifts by the column that the base does not see."""
RARE = -3.4
"""Intercept of the log-odds that makes 5 % of the labels 1."""


def people(rng, n, intercept=-0.8):
    """Features and true probabilities."""
    X = pd.DataFrame({f"x{j}": rng.normal(size=n).astype(np.float32) for j in range(4)})
    X["group"] = rng.choice(GROUPS, n, p=SHARES)
    X["sex"] = rng.choice(["f", "m"], n)
    truth = 1 / (1 + np.exp(-(0.9 * X["x0"] + 0.5 * X["x1"] + intercept)))
    return X, truth.to_numpy()


def classes(rng, n, kind, unseen=0.0):
    """Features, probabilities without the column "unseen", and true probabilities."""
    count, size = SEVERAL[kind]
    X = pd.DataFrame(rng.normal(size=(n, 6)), columns=[f"x{j}" for j in range(6)])
    weights = np.random.default_rng(12345).normal(size=(6, count))
    scores = size * X.to_numpy() @ weights / np.sqrt(6)
    X["group"] = rng.choice(list("uvwx"), n)
    X["unseen"] = rng.normal(size=n)
    shift = unseen * np.random.default_rng(777).normal(size=count)
    nodes, mass = np.polynomial.hermite_e.hermegauss(15)
    base = sum(
        w * softmax(scores + z * shift) for z, w in zip(nodes, mass / mass.sum(), strict=True)
    )
    return X, base, softmax(scores + X[["unseen"]].to_numpy() * shift)


def read_class(name):
    return {"default": None, "groups": rc.Groups("group", "sex", "group*sex"), "linear": "linear"}[
        name
    ]


def draw(kind, rng, n):
    """Features, true means, and the standard deviation of the noise (None: of 0/1 labels)."""
    if kind in SEVERAL:
        X, _, truth = classes(rng, n, kind)
        return X, truth, None
    X, truth = people(rng, n, RARE if kind == "rare" else -0.8)
    if kind in ("events", "rare"):
        return X, truth, None
    mean = np.exp(0.6 * X["x0"] + 0.3 * X["x1"]).to_numpy(float)
    return X, mean, 0.8 * mean if kind == "unequal" else np.ones(n)


def label(rng, truth, noise=None):
    if truth.ndim == 2:
        return (truth.cumsum(axis=1) > rng.random((len(truth), 1))).argmax(axis=1)
    return rng.random(len(truth)) < truth if noise is None else rng.normal(truth, noise)


def risen(after, truth, noise):
    """Rise of the expected loss over that of the truth, as a share of it."""
    if noise is not None:
        return np.mean((after - truth) ** 2) / np.mean(noise**2)
    if truth.ndim == 1:
        truth, after = (np.column_stack([1 - each, each]) for each in (truth, after))
    p, q = (np.clip(each, 1e-12, 1) for each in (truth, after))
    return np.sum(p * np.log(p / q)) / -np.sum(p * np.log(p))


def changing(model):
    """Names of the stages that changed the base."""
    for note in model.notes:
        name, _, said = note.partition(": ")
        if name == "clipped scores":
            continue
        words = ("corrected", "correction (", "corrections (")
        if said.startswith("applied") or any(word in said for word in words):
            yield name


def named(base):
    """What a fit has to be told of the classes."""
    return {"classes": list(range(base.shape[1]))} if base.ndim == 2 else {}


def calibrated(args):
    harm, stages, changed = [], Counter(), 0
    for seed in range(args.first, args.first + args.seeds):
        rng = np.random.default_rng(seed)
        X, truth, noise = draw(args.kind, rng, args.rows)
        new, new_truth, new_noise = draw(args.kind, np.random.default_rng(10**6 + seed), 20_000)
        model = rc.fit(truth, X, label(rng, truth, noise), H=read_class(args.H), **named(truth))
        harm.append(100 * risen(model.predict(new, base=new_truth), new_truth, new_noise))
        changed += bool(model.rounds.steps)
        stages.update(changing(model))
    error = np.std(harm) / np.sqrt(args.seeds)
    print(
        f"{args.kind}, {args.rows:,} rows, {args.seeds} seeds: mean harm {np.mean(harm):.4f} +- "
        f"{error:.4f} % of the loss (largest {np.max(harm):.2f} %), base changed in {changed} of "
        f"{args.seeds}"
    )
    print("  changed by " + (", ".join(f"{name} {k}" for name, k in stages.items()) or "nothing"))


def planted_classes(args):
    changes, moved = [], 0
    for seed in range(args.first, args.first + args.seeds):
        rng = np.random.default_rng(seed)
        X, base, truth = classes(rng, args.rows, args.kind, UNSEEN)
        again = np.random.default_rng(10**6 + seed)
        new, new_base, new_truth = classes(again, 20_000, args.kind, UNSEEN)
        y = label(rng, truth)
        model = rc.fit(base, X, y, **named(base))
        moved += bool(model.rounds.steps)
        case = Case("planted", args.kind, X, new, y, y, (base, new_base), {}, [])
        after = model.predict(new, base=new_base), fit_lgbmcv(case)[1](), new_truth
        entropy = -np.sum(new_truth * np.log(np.clip(new_truth, 1e-12, 1))) / len(new)
        losses = [entropy * (1 + risen(p, new_truth, None)) for p in (new_base, *after)]
        changes.append([100 * (loss / losses[0] - 1) for loss in losses[1:]])
    ours, lightgbm, possible = np.mean(changes, axis=0)
    print(
        f"{args.kind}, {args.rows:,} rows, {args.seeds} seeds: base changed in {moved}, loss "
        f"{ours:+.2f} % (LightGBM {lightgbm:+.2f} %, the truth {possible:+.2f} %)"
    )


def planted(args, gap=0.1):
    rows, seeds, left = args.rows, args.seeds, []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        X, base = people(rng, rows)
        new, new_base = people(np.random.default_rng(10**6 + seed), 100_000)
        truth = np.clip(base + gap * (X["group"] == PLANTED).to_numpy(), 0, 1)
        inside = (new["group"] == PLANTED).to_numpy()
        model = rc.fit(base, X, rng.random(rows) < truth, H=read_class(args.H))
        after = model.predict(new, base=new_base)
        wanted = np.clip(new_base + gap, 0, 1)[inside]
        left.append(np.mean(wanted - after[inside]) / np.mean(wanted - new_base[inside]))
    shrunk = np.mean(np.abs(left) <= 0.3)
    print(
        f"{rows:,} rows, {seeds} seeds: {np.mean(left):+.3f} of the gap is left on average; it "
        f"shrinks by at least 70 % in {100 * shrunk:.1f} % of the seeds"
    )


def small_groups(args):
    rows, seeds, moved = args.rows, args.seeds, []
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
    parser.add_argument("--first", type=int, default=0, help="first seed of calibrated and classes")
    parser.add_argument("--kind", choices=KINDS, default="events", help="of calibrated and planted")
    parser.add_argument("--H", choices=["default", "groups", "linear"], default="default")
    args = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    runs = {"calibrated": calibrated, "planted": planted, "small-groups": small_groups}
    if args.kind in SEVERAL:
        runs["planted"] = planted_classes
    runs[args.what](args)


if __name__ == "__main__":
    main()
