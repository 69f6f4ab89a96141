"""Networks of other programs in and out, one file per foreign format."""
