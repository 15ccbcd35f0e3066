"""What several tests write to disk."""

import gzip
from pathlib import Path

import numpy as np


def write_gz(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def heterophilous_arrays() -> dict[str, np.ndarray]:
    masks = np.zeros((3, 10, 5), dtype=bool)
    for split in range(10):
        masks[0, split, split % 5] = masks[1, split, (split + 1) % 5] = masks[2, split, (split + 2) % 5] = True
    return {
        "node_features": np.arange(10, dtype=np.float32).reshape(5, 2),
        "node_labels": np.array([0, 1, 0, 1, 0]),
        "edges": np.array([[0, 1], [1, 2], [3, 4]]),
        "train_masks": masks[0],
        "val_masks": masks[1],
        "test_masks": masks[2],
    }
