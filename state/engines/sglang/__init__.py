"""Everything that is known about SGLang."""
