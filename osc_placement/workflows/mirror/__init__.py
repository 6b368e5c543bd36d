"""Mirror: nova host aggregates as placement aggregates."""
