"""Loss and metric of a kind of labels."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from longhop.types import InputError

Kind = Literal["multiclass", "binary", "multilabel", "regression"]
Metric = Literal["accuracy", "ROC-AUC", "MAE"]


@dataclass(frozen=True, kw_only=True)
class Task:
    """What the outputs of a model mean.

    Attributes:
        kind: multiclass (one of C classes), binary (two classes, one logit), multilabel (T labels that a
            node may share, one logit each) or regression (T numbers).
        num_outputs: width of the model's output.
        label_smoothing: share of the target spread over all classes.

    Raises:
        InputError: label smoothing for a regression.
    """

    kind: Kind
    num_outputs: int
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        if self.kind == "regression" and self.label_smoothing:
            raise InputError(f"train.label_smoothing = {self.label_smoothing} contradicts a regression; set it to 0")

    @property
    def metric_name(self) -> Metric:
        """accuracy, ROC-AUC (mean over labels that have both classes) or MAE."""
        names: dict[Kind, Metric] = {"multiclass": "accuracy", "regression": "MAE"}
        return names.get(self.kind, "ROC-AUC")

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger metric is a better one."""
        return self.kind != "regression"

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Mean loss over the labels given.

        Args:
            outputs: [M, num_outputs].
            y: int64 [M], or float [M, T] with NaN = unlabelled.

        Returns:
            A scalar.
        """
        if self.kind == "multiclass":
            return F.cross_entropy(outputs, y, label_smoothing=self.label_smoothing)
        target, given = self._targets(outputs, y)
        if self.kind == "regression":
            return (outputs - target).abs()[given].mean()
        smooth = target * (1 - self.label_smoothing) + 0.5 * self.label_smoothing
        return F.binary_cross_entropy_with_logits(outputs[given], smooth[given])

    def metric(self, outputs: Tensor, y: Tensor) -> float | None:
        """The metric over the labels given (shapes as in :meth:`loss`); None where it has no meaning."""
        # torchmetrics takes seconds to import, which commands that do not train need not wait for.
        from torchmetrics.functional import classification, regression

        if self.kind == "multiclass":
            if not len(y):
                return None
            score = classification.multiclass_accuracy(
                outputs.argmax(1), y, num_classes=self.num_outputs, average="micro", validate_args=False
            )
            return float(score)
        target, given = self._targets(outputs, y)
        if self.kind == "regression":
            kept = outputs[given], target[given]
            return float(regression.mean_absolute_error(*kept)) if kept[0].numel() else None
        scores = [
            float(classification.binary_auroc(outputs[:, t][given[:, t]], target[:, t][given[:, t]].long()))
            for t in self.scored_labels(y)
        ]
        return sum(scores) / len(scores) if scores else None

    def scored_labels(self, y: Tensor) -> list[int]:
        """Labels of a binary or multilabel task with both classes in ``y``; others have no ROC-AUC."""
        columns = y.reshape(len(y), -1)
        return [t for t in range(columns.shape[1]) if _has_both(columns[:, t])]

    def probabilities(self, outputs: Tensor) -> Tensor:
        """Of each class [M, C] (two for binary) or label [M, T]; the values themselves for regression."""
        if self.kind == "multiclass":
            return outputs.softmax(1)
        if self.kind == "binary":
            positive = outputs[:, 0].sigmoid()
            return torch.stack([1 - positive, positive], 1)
        return outputs.sigmoid() if self.kind == "multilabel" else outputs

    def _targets(self, outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Targets in the outputs' shape and type, and where they are given."""
        target = y.reshape(outputs.shape).to(outputs.dtype)
        given = ~target.isnan() if y.is_floating_point() else target >= 0
        return target.nan_to_num(), given


def _has_both(column: Tensor) -> bool:
    return bool((column == 0).any()) and bool((column == 1).any())
