"""METIS in a process of its own, so that a crash inside it is not ours.

Run as a file, not as a module: it needs numpy and pymetis only, and starts in a fraction of the time that
importing the package takes. ``python metis_child.py FOLDER NUM_PARTS SEED`` reads ``rowptr.npy`` and
``col.npy`` and writes ``part.npy``.
"""

import sys
from pathlib import Path


def main(folder: Path, num_parts: int, seed: int) -> None:
    """Partition the graph in the folder; exits with a message when METIS cannot hold it."""
    import numpy as np
    import pymetis

    rowptr, col = np.load(folder / "rowptr.npy"), np.load(folder / "col.npy")
    # METIS is built for one width of index: 32 bits in most distributions.
    width = np.dtype(f"int{pymetis._internal._idx_type_width()}")
    if len(col) > np.iinfo(width).max:
        sys.exit(f"{len(col)} entries are more than METIS built for {width} can hold")
    adjacency = pymetis.CSRAdjacency(rowptr.astype(width, copy=False), col.astype(width, copy=False))
    # Bisection rather than k-way: its time does not grow with the square of the parts, it balances to a
    # node, and parts that were split last, which share the most edges, get numbers next to each other.
    _, part = pymetis.part_graph(num_parts, adjacency, recursive=True, options=pymetis.Options(seed=seed))
    np.save(folder / "part.npy", np.asarray(part, dtype=np.int64))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
