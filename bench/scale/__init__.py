"""How fast, how large, how many: what syncwall itself takes and stands."""
