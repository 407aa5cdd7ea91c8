"""For loops of frameworks: what they log goes along with the steps that are watched.

`huggingface.WatchCallback`, `lightning.WatchCallback`, `accelerate.WatchTracker` and
`torchtitan.WatchLogger` each start watching and tell loss, gradient norm and tokens. They are only
needed where these are wanted: steps, causes and checkpoints are seen without them.
"""
