"""The fake kernel compared with the real one, field by field.

The fields are shape, strides, dtype, device, layout, storage offset, requires_grad, and which outputs
share memory with what. A failure shows them in a table.
"""
