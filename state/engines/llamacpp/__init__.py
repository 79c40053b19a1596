"""llama.cpp's server: what it prints and reports."""
