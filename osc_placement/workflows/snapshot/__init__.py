"""A cloud in a file: save, show, compare, replay."""
