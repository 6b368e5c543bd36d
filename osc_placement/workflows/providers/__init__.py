"""The audit of resource providers: ``audit`` compares them with nova and neutron."""
