"""Speed, memory and accuracy against others; speed as ratios in one run."""
