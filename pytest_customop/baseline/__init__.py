"""The baseline file: failures that were recorded with the ops, checks and cases that had them.

`entry` defines what an entry covers, `file` reads and edits the file, `ran` holds the results of a session,
and `merge` combines the two. None of them imports torch.
"""
