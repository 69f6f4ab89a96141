"""What verbs, experiments and the public API share: networks by name, runs to files, files to accuracies."""
