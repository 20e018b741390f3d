"""mmgen: data, training, evaluation and reports for four benchmarks of multimodal generalization."""

__version__ = "0.1.0"
