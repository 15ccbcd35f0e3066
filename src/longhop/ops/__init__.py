"""longhop.ops."""
