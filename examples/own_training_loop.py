"""A graph transformer on a generated graph, in a plain PyTorch loop."""

import torch

from longhop.graph.generate import sbm
from longhop.models import GraphormerConfig, build


def main(steps: int = 50) -> float:
    graph, x, y = sbm(num_nodes=2000, seed=0)
    torch.manual_seed(0)
    model = build(GraphormerConfig(dropout=0.1), x.shape[1], int(y.max()) + 1)
    structure = model.prepare(graph)
    train = torch.rand(len(y)) < 0.5
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(steps):
        model.train()
        logits = model(x, structure, seed=torch.tensor([step]))
        loss = torch.nn.functional.cross_entropy(logits[train], y[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.inference_mode():
        return float((model(x, structure).argmax(1) == y)[~train].float().mean())


if __name__ == "__main__":
    print(f"test accuracy {100 * main():.1f} %")
