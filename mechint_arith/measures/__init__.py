"""Progress measures: what a checkpoint can do, what its weights say, and which route its sums take.

`subject` is what a measure is given; one module per kind of measure; `catalogue` lists them all by name.
"""
