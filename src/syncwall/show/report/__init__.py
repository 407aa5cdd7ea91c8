"""Results as an article: one self-contained HTML page, or Markdown with pictures beside it.

Holds nothing itself. `reading` checks files, `article` turns them into blocks (`blocks`), `page`
and `markdown` write blocks; `sections`, `lab` and `words` say what there is to say, always from the
data; the other modules draw.
"""
