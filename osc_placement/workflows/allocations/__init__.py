"""Allocations compared with nova: ``heal`` creates what lacks, ``audit`` finds what is wrong."""
