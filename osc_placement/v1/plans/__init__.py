"""The `placement plan` commands: list, show, apply, undo and prune."""
