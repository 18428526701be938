"""The paper's whole programme: prepare, train, report, and a verdict on every claim."""
