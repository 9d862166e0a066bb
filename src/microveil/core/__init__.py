"""What every room stands on; imports nothing of ours."""
