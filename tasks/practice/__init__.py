"""Practice hosts: a simulated host that behaves like a real one, and an engine stand-in to run on it."""
