"""longhop.testing."""
