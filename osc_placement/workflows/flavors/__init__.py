"""Which flavors can start, and why the others cannot."""
