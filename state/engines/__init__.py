"""Everything known about each engine, one folder an engine."""
