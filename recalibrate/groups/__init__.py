"""Group expressions, and the numbered groups of rows that they become.

Comes in: text such as ``sex * (age < 25)`` and columns. Leaves: cells, terms, group numbers.
Called by the class Groups, the audit and the serving graph.
"""
