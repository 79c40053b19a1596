"""Programs of the practice machine, one module for each family; each speaks its original's words to the letter."""

from tasks.practice.commands.shell import call_for, follow_lines, owns, run_words

__all__ = ["call_for", "follow_lines", "owns", "run_words"]
