"""What of PyTorch has to be replaced while a program is recorded, one reason a file."""
