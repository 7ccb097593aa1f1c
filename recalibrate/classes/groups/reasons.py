"""Why its groups moved a row, in words."""

from __future__ import annotations

import numpy as np

from recalibrate.classes.groups.spec import GroupEncoder, GroupTable
from recalibrate.core.learning import everyone
from recalibrate.explain.reasons import Floats, Reasons


class GroupReasons(Reasons[GroupTable, GroupEncoder]):
    """The groups that a row is in."""

    def words(self, row: int) -> str:
        if not self.table.present[self.level[row]]:
            return ""
        starts, labels = self.encoder.groups.offsets, self.encoder.groups.labels
        found = [
            self._said(labels[starts[int(t)] + int(self.block[row, t]) - 1])
            for t in self.table.columns
            if self.block[row, t] > 0
        ]
        return ", ".join(found) if found else "no group"

    def parts(self) -> dict[str, Floats]:
        table, added = self.table, {}
        for k, t in enumerate(table.columns):
            code = self.block[:, t].astype(np.int64)
            moved = (code > 0) & table.present[self.level]
            at = np.where(moved, table.offsets[k] + code, 0)
            own = np.where(moved, table.coefficient[self.level, at], 0.0)
            added[self._said(self.encoder.groups.terms[int(t)].text)] = own
        return added

    def _said(self, group: str) -> str:
        return "everyone" if group == everyone(self.schema) else group


REASONS = GroupReasons
