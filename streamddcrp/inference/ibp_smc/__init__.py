"""Time-varying IBP."""
