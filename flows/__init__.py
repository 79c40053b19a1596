"""What happens in which order: the loop, and the Prefect flows around it."""
