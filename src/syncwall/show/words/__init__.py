"""Sentences: what answers mean, in plain words. Nothing here lays anything out."""
