"""Online data migrations: ``registry`` lists and runs them."""
