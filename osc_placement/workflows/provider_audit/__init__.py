"""Compares providers with nova and neutron: observe, check, repair. Only observe.py reads."""
