"""Sample clouds: recorded states of real placement, nova and neutron services."""
