"""The vocabulary: frozen values and the arithmetic on them.

Standard library only, no input or output. Every layer above speaks in these words,
which are the Placement API's own. Amounts are integers in units of their resource
class (MEMORY_MB in MiB, DISK_GB in GiB).
"""
