"""The HTTP API: how machines get in, beside the command line. `create_app` in `deployments.api.app` makes it."""
