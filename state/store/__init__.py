"""The event store: ports, adapters, tables and projections."""
