"""What a shell offers while a command is typed: found without the network, and without loading the product."""

VARIABLE = "_MAINT_COMPLETE"  # set by a shell that asks
FILES = ":files"  # the answer that tells the shell to offer files by itself
SHELLS = ("bash", "zsh", "fish")
