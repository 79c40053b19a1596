pytest_plugins = ["contract.store_fixtures"]
