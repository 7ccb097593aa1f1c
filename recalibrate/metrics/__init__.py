r"""Calibration and multicalibration errors of predictions.

For predictions f with level sets {f = v} and a function h of the features (a group's indicator,
say), the errors of [1]_ weigh the mean residual times h on every level set,

.. math:: m_v = E[h(x) (y - f(x)) \mid f = v],

by the level set's mass: ``K1`` is the sum of P(v) abs(m_v), ``K2`` the sum of P(v) m_v^2 and
``Kinf`` the largest P(v) abs(m_v). Predictions that are not rounded have a level set per row,
which says nothing: give ``bins``, and level sets are bins of f.

These errors are weighted by mass, so a small group can be far off and still have a small K2; the
error within a group is `group_k2`.

Conventions: ``f`` and ``y`` have shape (n,). Where ``h`` is allowed, it may be None (h = 1), a
vector, an array of shape (n, G), or the (label, mask) pairs of ``GroupSet.masks``; the last two
give an array with one value per column or group. ``bins`` is None (level sets are the distinct
values of f), an integer (weighted quantile bins of f in which ties stay together) or ascending
edges (the bin is the number of edges at or below f). A row of weight 2 counts as the row twice.

References
----------
.. [1] I. Globus-Harris, D. Harrison, M. Kearns, A. Roth, J. Sorrell,
   "Multicalibration as Boosting for Regression", ICML 2023.
.. [2] P. Gopalan, A. T. Kalai, O. Reingold, V. Sharan, U. Wieder, "Omnipredictors", ITCS 2022.
"""

from recalibrate.metrics.binned import ece, ece_debiased, worst_group_ece
from recalibrate.metrics.cumulative import ecce, ecce_p, ecce_sigma
from recalibrate.metrics.deviances import Decomposition, decompose, deviance
from recalibrate.metrics.multicalibration import (
    covariance_form,
    group_k2,
    k1,
    k2,
    k2_unbiased,
    kinf,
    msce,
)

__all__ = [
    "Decomposition",
    "covariance_form",
    "decompose",
    "deviance",
    "ecce",
    "ecce_p",
    "ecce_sigma",
    "ece",
    "ece_debiased",
    "group_k2",
    "k1",
    "k2",
    "k2_unbiased",
    "kinf",
    "msce",
    "worst_group_ece",
]
