"""The `Host` port and its adapters."""
