"""What the package may cost, as ratios against a baseline measured in the same run: `python -m benchmarks`.

One module per row, each with one function `measure`. Numbers in seconds depend on the machine; ratios hardly do.
"""
