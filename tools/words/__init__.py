"""The words that the project does not use, and the check that finds them."""
