"""What ``fit`` does by default: stages that held-out rows have to approve of.

Comes in: rows and a class H. Leaves: rounds, and notes on what was decided and why.
"""
