"""Hosts and fabrics: what they are, and what is wrong with them."""
