"""How results are shown: the summary in the terminal, the JSON file, the root cause of each finding.

All but `explain` are functions of `ResultRecord`s; they import neither torch nor pytest.
"""
