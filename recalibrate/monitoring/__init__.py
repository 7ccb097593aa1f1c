"""Monitoring: is a model in production still right for every group, with control of false alarms.

Comes in: batches of rows with their labels, as they arrive. Leaves: `Monitor`, its state as a
small JSON file, and a report with its views. Called by users and by the command line.
"""

from recalibrate.monitoring.monitor import Monitor
from recalibrate.monitoring.report import MonitorReport

__all__ = ["Monitor", "MonitorReport"]
