"""vLLM: what it prints, reports and refuses."""
