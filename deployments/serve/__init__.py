"""`interlock serve`: the normal home of rollouts. A resident runner, Prefect beside it, the HTTP API in front of it."""
