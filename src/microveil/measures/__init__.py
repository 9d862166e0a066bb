"""Measures of risk and utility: their declarations, the searches behind them, and the assessment they make up."""
