"""Ten small trained policies: runs without their checkpoints, named `zoo:NAME` wherever Forage takes a run."""
