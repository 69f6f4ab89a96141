"""The paper's tables and figures, one file each. Composes what the other packages define, defines nothing."""
