from ftbnn.cli.main import entry

entry()
