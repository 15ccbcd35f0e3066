import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score

from longhop.train.task import Task
from longhop.types import InputError

NAN = float("nan")


def test_multiclass() -> None:
    task = Task(kind="multiclass", num_outputs=3, label_smoothing=0.1)
    outputs, y = torch.randn(20, 3), torch.randint(0, 3, (20,))
    torch.testing.assert_close(task.loss(outputs, y), F.cross_entropy(outputs, y, label_smoothing=0.1))
    assert task.metric(outputs, y) == pytest.approx(float((outputs.argmax(1) == y).float().mean()))
    assert task.metric_name == "accuracy"
    torch.testing.assert_close(task.probabilities(outputs).sum(1), torch.ones(20))


def test_binary_is_one_logit_and_ties_count_half() -> None:
    task = Task(kind="binary", num_outputs=1)
    outputs, y = torch.randint(0, 4, (50, 1)).float(), torch.randint(0, 2, (50,))
    expected = F.binary_cross_entropy_with_logits(outputs[:, 0], y.float())
    torch.testing.assert_close(task.loss(outputs, y), expected)
    assert task.metric(outputs, y) == pytest.approx(roc_auc_score(y, outputs[:, 0]))
    assert task.metric_name == "ROC-AUC"
    assert task.probabilities(outputs).shape == (50, 2)


def test_multilabel_leaves_out_what_is_not_labelled_and_columns_of_one_class() -> None:
    task = Task(kind="multilabel", num_outputs=3)
    outputs = torch.randn(40, 3)
    y = torch.randint(0, 2, (40, 3)).float()
    y[:, 1] = 1.0
    y[:10, 0] = NAN
    assert task.scored_labels(y) == [0, 2]
    expected = (roc_auc_score(y[10:, 0], outputs[10:, 0]) + roc_auc_score(y[:, 2], outputs[:, 2])) / 2
    assert task.metric(outputs, y) == pytest.approx(expected)
    given = ~y.isnan()
    loss = F.binary_cross_entropy_with_logits(outputs[given], y[given])
    torch.testing.assert_close(task.loss(outputs, y), loss)


def test_a_loss_over_labels_with_gaps_has_finite_gradients() -> None:
    outputs = torch.randn(4, 2, requires_grad=True)
    y = torch.tensor([[1.0, NAN], [NAN, NAN], [0.0, 1.0], [1.0, 0.0]])
    Task(kind="multilabel", num_outputs=2).loss(outputs, y).backward()  # type: ignore[no-untyped-call]
    assert outputs.grad is not None
    assert outputs.grad.isfinite().all()
    assert (outputs.grad[1] == 0).all()


def test_regression() -> None:
    task = Task(kind="regression", num_outputs=2)
    outputs, y = torch.zeros(3, 2), torch.tensor([[1.0, NAN], [2.0, 3.0], [NAN, NAN]])
    assert float(task.loss(outputs, y)) == pytest.approx(2.0)
    assert task.metric(outputs, y) == pytest.approx(2.0)
    assert not task.higher_is_better
    with pytest.raises(InputError, match="contradicts a regression"):
        Task(kind="regression", num_outputs=1, label_smoothing=0.1)


@pytest.mark.parametrize("kind", ["binary", "multilabel"])
def test_one_class_has_no_roc_auc(kind: str) -> None:
    task = Task(kind=kind, num_outputs=1)  # type: ignore[arg-type]
    assert task.metric(torch.randn(5, 1), torch.ones(5, 1)) is None
