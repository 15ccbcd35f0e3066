"""Training: settings, the loop, run folders, results."""

from longhop.train.config import OrderConfig, RunConfig, TrainConfig
from longhop.train.config_io import from_dict, load_yaml, to_dict
from longhop.train.console import Console
from longhop.train.evaluate import evaluate_run
from longhop.train.loop import TrainingFailedError
from longhop.train.predict import predict_run
from longhop.train.report import Results, SeedResult
from longhop.train.schedule import OptimConfig
from longhop.train.signals import StoppedError
from longhop.train.trainer import run

__all__ = [
    "Console",
    "OptimConfig",
    "OrderConfig",
    "Results",
    "RunConfig",
    "SeedResult",
    "StoppedError",
    "TrainConfig",
    "TrainingFailedError",
    "evaluate_run",
    "from_dict",
    "load_yaml",
    "predict_run",
    "run",
    "to_dict",
]
