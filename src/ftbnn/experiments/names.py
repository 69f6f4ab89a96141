"""The experiments there are, in the paper's order: what may be asked for. Each is the file of its name here."""

EXPERIMENTS = ("figure1", "figure2", "table1", "table2", "table3", "table4", "methods", "recipes", "deploy", "backends")
