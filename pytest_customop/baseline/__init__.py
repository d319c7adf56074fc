"""The baseline file: failures that were recorded with the ops, checks and cases that had them.

`entry` says what an entry covers, `file` reads and edits the file, `ran` is what a session saw, and
`merge` brings the two together. None of them imports torch.
"""
