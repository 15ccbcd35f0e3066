"""What a partition is worth, in numbers."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from longhop.graph import CSRGraph

_BALANCE_LIMIT = 1.1
# A random assignment cuts 1 - 1/k of the edges; saving less than this share of that is not worth having.
_WORTH_SAVING = 0.15


@dataclass(frozen=True)
class PartitionReport:
    """Counts over the graph as given: directed edges, self-loops kept inside their part.

    Attributes:
        num_parts: k.
        kept: edges with both ends in one part; ``kept + cut`` is exactly E.
        cut: edges between parts.
        largest: nodes of the largest part.
        smallest: nodes of the smallest.
        balance: largest part over the mean.
        halo: (part, foreign key) pairs: rows of foreign nodes that the parts must fetch, all together.
        halo_share: ``halo / (halo + N)``: how much of what the parts hold is foreign.
        warnings: sentences with numbers, for what the user should know.
    """

    num_parts: int
    kept: int
    cut: int
    largest: int
    smallest: int
    balance: float
    halo: int
    halo_share: float
    warnings: tuple[str, ...] = ()

    @property
    def cut_share(self) -> float:
        """Cut over all edges; 0 for a graph without edges."""
        return self.cut / max(self.kept + self.cut, 1)

    def summary(self) -> str:
        """One line for a log."""
        return (
            f"{self.num_parts} parts of {self.smallest} to {self.largest} nodes "
            f"(max/mean {self.balance:.2f}), {self.kept} edges kept + {self.cut} cut "
            f"({self.cut_share:.1%}), halo {self.halo_share:.1%}"
        )


def measure(
    graph: CSRGraph, assignment: npt.NDArray[np.int64], num_parts: int, notes: tuple[str, ...] = ()
) -> PartitionReport:
    """Count what an assignment int64 [N] keeps, cuts and needs; ``notes`` lead the warnings."""
    own, other = assignment[graph.rows().numpy()], assignment[graph.col.numpy()]
    crossing = own != other
    cut = int(np.count_nonzero(crossing))
    key = own[crossing] * graph.num_nodes + graph.col.numpy()[crossing]
    key.sort()
    halo = int(np.count_nonzero(key[1:] != key[:-1])) + min(len(key), 1)
    size = np.bincount(assignment, minlength=num_parts)
    mean = graph.num_nodes / num_parts
    report = PartitionReport(
        num_parts=num_parts,
        kept=graph.num_edges - cut,
        cut=cut,
        largest=int(size.max()),
        smallest=int(size.min()),
        balance=float(size.max() / mean),
        halo=halo,
        halo_share=halo / (halo + graph.num_nodes),
    )
    return _with_warnings(report, mean, notes)


def _with_warnings(report: PartitionReport, mean: float, notes: tuple[str, ...]) -> PartitionReport:
    warnings = list(notes)
    # Parts of a handful of nodes cannot be closer to the mean than the next whole node.
    if report.largest > max(_BALANCE_LIMIT * mean, np.ceil(mean)):
        warnings.append(
            f"the largest of {report.num_parts} parts holds {report.largest} nodes against a mean of "
            f"{mean:.1f} (max/mean {report.balance:.2f}); ask for fewer parts"
        )
    random_cut = 1 - 1 / report.num_parts
    if report.cut and report.cut_share > (1 - _WORTH_SAVING) * random_cut:
        warnings.append(
            f"{report.cut_share:.1%} of the edges lie between the {report.num_parts} parts, against "
            f"{random_cut:.1%} for a random assignment (halo {report.halo_share:.1%}): this graph has no "
            "clusters of that size; ask for fewer parts or keep another order"
        )
    return replace(report, warnings=tuple(warnings))
