"""What to run and what to buy: layouts, the sync wall, the network, the fabric."""
