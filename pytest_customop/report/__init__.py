"""How results are shown: the text of a failure, the summary in the terminal, the JSON file."""
