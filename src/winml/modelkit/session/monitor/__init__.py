"""What may be watched while a model runs: where the time goes inside an EP, and what the hardware does meanwhile."""
