"""What touches the world: hosts, and one module for each kind of work on them."""
