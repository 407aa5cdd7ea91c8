"""What a report is about: results, runs and jobs, read from their files, checked and computed.

`results` reads what `measure` and `lab run` wrote, `stated` runs and jobs, `answered` computes what
there is to say of those.
"""
