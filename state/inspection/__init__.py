"""Reading raw evidence: what engines, kernels and units really say."""
