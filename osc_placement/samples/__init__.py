"""Sample clouds: recorded states of a real cloud, by name."""
