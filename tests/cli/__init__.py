"""The command line as an operator and a script meet it."""
