"""The experiments there are, in the paper's order: what may be asked for. Needs no PyTorch."""

EXPERIMENTS = ("figure1", "figure2", "table1", "table2", "table3", "table4", "deploy", "backends")
