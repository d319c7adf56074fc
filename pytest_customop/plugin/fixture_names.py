"""The names of the fixtures that the plugin parametrizes."""

CELL = "_customop_cell"  # what stands in one cell of the matrix: a check on a case, or a body
DEVICE = "customop_device"
DTYPE = "customop_dtype"
