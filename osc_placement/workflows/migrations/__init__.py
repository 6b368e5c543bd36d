"""Online data migrations: a registry, and a runner that works in batches."""
