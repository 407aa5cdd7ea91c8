"""Questions: one type for each ability, which Python, the terminal and the pages parse and ask.

`syncwall.ask.verbs.VERBS` lists them; `syncwall.ask.question.Question` is what they share.
"""
