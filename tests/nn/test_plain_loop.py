"""Layers on their own, in a loop that knows nothing of longhop's trainer."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longhop.graph.build import add_self_loops
from longhop.graph.generate import sbm
from longhop.nn import GCNConv, GraphSelfAttention, GraphStructure, append_tokens, gcn_structure


class Mine(nn.Module):
    """One convolution beside one attention with a global token, in a user's words."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.convolution = GCNConv(features, 16)
        self.attention = GraphSelfAttention(16, 4, dropout=0.1)
        self.token = nn.Parameter(torch.zeros(1, 16))
        self.head = nn.Linear(16, classes)

    def forward(self, x: Tensor, local: GraphStructure, wide: GraphStructure, seed: Tensor) -> Tensor:
        x = F.relu(self.convolution(x, local))
        x = x + self.attention(append_tokens(x, self.token), wide, seed=seed)[: len(x)]
        return self.head(x)


def test_a_users_model_learns() -> None:
    torch.manual_seed(0)
    graph, x, y = sbm(120, 2, seed=0)
    local = gcn_structure(graph)
    wide = GraphStructure.from_graph(add_self_loops(graph)[0], num_global=1)
    model = Mine(x.shape[1], 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(30):
        optimizer.zero_grad()
        F.cross_entropy(model(x, local, wide, torch.tensor([step])), y).backward()
        optimizer.step()
    model.eval()
    accuracy = (model(x, local, wide, torch.tensor([0])).argmax(1) == y).float().mean()
    assert float(accuracy) > 0.9
