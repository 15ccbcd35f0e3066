"""longhop: graph transformers and GNNs on whole graphs, in the memory one has."""

__version__ = "0.1.0"
