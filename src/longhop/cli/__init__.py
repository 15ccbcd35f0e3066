"""longhop.cli."""
