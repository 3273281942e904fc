"""HTTP in front of the cluster, and the runstate command."""
