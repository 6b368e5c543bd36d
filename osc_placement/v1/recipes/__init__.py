"""The commands ``placement reshape recipe``, one module each."""
