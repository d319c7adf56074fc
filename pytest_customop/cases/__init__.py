"""Cases: a sample on one device, in one dtype, with or without gradients, in one memory layout."""
