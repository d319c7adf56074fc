"""The names of fixtures that the plugin looks for in tests; it parametrizes the first three."""

CELL = "_customop_cell"  # the content of one cell of the matrix: a check on a case, or a body
DEVICE = "customop_device"
DTYPE = "customop_dtype"
BY_HAND = "customop_check"
