"""Graph attention by DGL's u_dot_v, edge_softmax and u_mul_e_sum, on a graph that longhop saved.

Runs in an environment of its own (see README.md here) and needs nothing of longhop:

    longhop bench attention --graph local-169k --save-graph case.npz
    DGL_PYTHON benchmarks/dgl_attention.py case.npz

With --serve it prints `ready` once its values agree with the oracle's rows in the file (else a line that
starts with `wrong`), then answers every line `run fwd` or `run both` on stdin with the seconds that took, until
stdin ends. `longhop bench attention --dgl DGL_PYTHON` drives it so, in turns with the other providers.
"""

import argparse
import os
import statistics
import sys
import time

import numpy as np
import torch

os.environ.setdefault("DGLBACKEND", "pytorch")  # else dgl asks, and writes to the user's home
import dgl
from dgl.nn.functional import edge_softmax

TOLERANCE = 2e-5


class Attention:
    """The case of a file, ready to run.

    The inputs are drawn as longhop draws them: packed [N, 3, D, H] and dout [N, D, H], by node, from one
    seeded generator.
    """

    def __init__(self, path):
        with np.load(path) as case:
            self.rows = torch.from_numpy(case["rows"])
            self.want = {name: torch.from_numpy(case[name]) for name in ("out", "dq", "dk", "dv")}
            col, rowptr = torch.from_numpy(case["col"]).long(), torch.from_numpy(case["rowptr"])
            perm = torch.from_numpy(case["perm"])
            heads, width, seed = (int(case[name]) for name in ("heads", "width", "seed"))
        nodes = len(rowptr) - 1
        target = torch.repeat_interleave(torch.arange(nodes), rowptr.diff())
        graph = dgl.graph((col, target), num_nodes=nodes).int()
        self.graph = graph.formats(["coo", "csr", "csc"])
        self.graph.create_formats_()
        rng = torch.Generator().manual_seed(seed)
        packed = torch.randn(nodes, 3, width, heads, generator=rng)[perm]
        dout = torch.randn(nodes, width, heads, generator=rng)[perm]
        self.qkv = [t.transpose(1, 2).contiguous().requires_grad_() for t in packed.unbind(1)]
        self.dout = dout.transpose(1, 2).contiguous()
        self.scale = width**-0.5

    def forward(self):
        q, k, v = self.qkv
        score = dgl.ops.u_dot_v(self.graph, k, q) * self.scale
        return dgl.ops.u_mul_e_sum(self.graph, v, edge_softmax(self.graph, score))

    def run(self, mode):
        """Seconds of one forward, or of one forward and backward."""
        start = time.perf_counter()
        if mode == "fwd":
            with torch.no_grad():
                self.forward()
        else:
            torch.autograd.grad(self.forward(), self.qkv, self.dout)
        return time.perf_counter() - start

    def error(self):
        """What differs from the oracle, in words; empty when nothing does. Warms up, too."""
        out = self.forward()
        grads = torch.autograd.grad(out, self.qkv, self.dout)
        for (name, want), got in zip(self.want.items(), (out, *grads), strict=True):
            off = (got.detach()[self.rows].double() - want).norm() / want.norm()
            if not off <= TOLERANCE:
                return f"{name} is off by {off:.1e} of its norm, at most {TOLERANCE:.0e} is right"
        return ""


def serve(case):
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        if len(words) != 2 or words[0] != "run" or words[1] not in ("fwd", "both"):
            return f"cannot understand {line.strip()!r}"
        print(case.run(words[1]), flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", help="file of longhop bench attention --save-graph")
    parser.add_argument("--serve", action="store_true", help="answer commands on stdin")
    parser.add_argument("--threads", type=int, default=0, help="0 = torch's own choice")
    parser.add_argument("--repeat", type=int, default=7, help="runs, without --serve")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    case = Attention(options.case)
    wrong = case.error()
    if wrong:
        print(f"wrong {wrong}", flush=True)
        return 1
    if options.serve:
        return serve(case)
    for mode in ("fwd", "both"):
        median = statistics.median(case.run(mode) for _ in range(options.repeat))
        print(f"dgl {dgl.__version__} {mode} {median * 1e3:.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
