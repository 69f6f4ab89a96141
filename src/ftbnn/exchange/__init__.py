"""Networks to and from elsewhere: one file for each foreign format."""
