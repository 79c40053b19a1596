"""A rollout's report as pages: markdown, and one HTML file that needs nothing else."""
