"""Benchmarks of collectives, links and kernels: are they as fast as the machine should be?"""
